//! Which view an address is, and what is asked of it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::reports::PageObject;

/// The most bytes of one parameter.
const MOST: usize = 1000;

/// What is not encoded in a segment of a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A view, as its address names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ViewName {
    Fleet,
    Rollout(PageObject),
    History(PageObject),
    Run(PageObject, String),
    Plan(PageObject),
    Application(PageObject),
    Policies,
    Keys,
}

impl ViewName {
    /// The view with this path; `None` when there is none.
    pub fn of(path: &str) -> Option<Self> {
        let decoded =
            |part: &str| percent_decode_str(part).decode_utf8().ok().map(|text| text.into_owned());
        let parts: Vec<String> =
            path.strip_prefix('/')?.split('/').map(decoded).collect::<Option<_>>()?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        let object = |namespace: &str, name: &str| {
            let is_name = |text: &str| {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
                !text.is_empty()
                    && text.len() <= 253
                    && text.chars().all(plain)
                    && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            };
            let object = PageObject { namespace: namespace.to_owned(), name: name.to_owned() };
            (is_name(namespace) && is_name(name)).then_some(object)
        };
        match parts.as_slice() {
            [""] => Some(Self::Fleet),
            ["policies"] => Some(Self::Policies),
            ["keys"] => Some(Self::Keys),
            ["set", namespace, name] => object(namespace, name).map(Self::Rollout),
            ["set", namespace, name, "history"] => object(namespace, name).map(Self::History),
            ["set", namespace, name, "history", run] => {
                object(namespace, name).map(|of| Self::Run(of, (*run).to_owned()))
            }
            ["set", namespace, name, "plan"] => object(namespace, name).map(Self::Plan),
            ["app", namespace, name] => object(namespace, name).map(Self::Application),
            _ => None,
        }
    }
}

/// The path of an ApplicationSet, or of one of its views.
pub(crate) fn set_path(of: &PageObject, view: &str) -> String {
    format!("/set/{}/{}{view}", segment(&of.namespace), segment(&of.name))
}

/// The path of an Application.
pub(crate) fn application_path(namespace: &str, name: &str) -> String {
    format!("/app/{}/{}", segment(namespace), segment(name))
}

/// A text as a segment of a path, or a value of a query.
pub(crate) fn segment(text: &str) -> String {
    utf8_percent_encode(text, SEGMENT).to_string()
}

/// The parameters of a query or of a form, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Of a text as browsers send it; what is no text is left out.
    pub fn parse(text: &str) -> Self {
        let decoded = |text: &str| {
            let spaced = text.replace('+', " ");
            let text = percent_decode_str(&spaced).decode_utf8().ok()?.into_owned();
            (text.len() <= MOST && !text.contains('\0')).then_some(text)
        };
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?, decoded(value)?))
        };
        Self(text.split('&').filter(|pair| !pair.is_empty()).filter_map(pair).collect())
    }

    /// The first value; empty when absent.
    pub fn text(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// All values.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// As a query, without one of them.
    pub fn without(&self, name: &str) -> String {
        let others = self.0.iter().filter(|(key, _)| key != name);
        let pairs = others.map(|(key, value)| format!("{}={}", segment(key), segment(value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}
