//! `urlParse` and `urlJoin`.

use std::collections::BTreeMap;

use super::prelude::*;
use super::url_parse::{Url, UserInfo};

pub(super) const FUNCTIONS: &[Function] = &[
    f("urlParse", "s", |run, a| {
        let text = a.text(0);
        let url = Url::parse(&text)
            .map_err(|why| format!("unable to parse url: parse {text:?}: {why}"))?;
        let parts = [
            ("scheme", url.scheme.clone()),
            ("host", url.host.clone()),
            ("hostname", url.hostname().to_owned()),
            ("path", url.path.clone()),
            ("query", url.query.clone()),
            ("opaque", url.opaque.clone()),
            ("fragment", url.fragment.clone()),
            ("userinfo", url.user.as_ref().map(UserInfo::text).unwrap_or_default()),
        ];
        let entries: BTreeMap<String, Value> =
            parts.into_iter().map(|(key, text)| (key.to_owned(), Value::str(text))).collect();
        run.build(text.len())?;
        run.dict(entries)
    }),
    f("urlJoin", "d", |_, a| {
        let dict = a.dict(0)?;
        let user = match part(dict, "userinfo")? {
            user if user.is_empty() => None,
            user => Url::parse(&format!("proto://{user}@host"))?.user,
        };
        let url = Url {
            scheme: part(dict, "scheme")?,
            host: part(dict, "host")?,
            path: part(dict, "path")?,
            raw_path: String::new(),
            query: part(dict, "query")?,
            opaque: part(dict, "opaque")?,
            fragment: part(dict, "fragment")?,
            user,
        };
        Ok(Value::str(url.text()))
    }),
];

fn part(dict: &Dict, key: &str) -> Outcome<String> {
    match dict.get(key) {
        None => Ok(String::new()),
        Some(Value::Str(text)) => Ok(text.text().into_owned()),
        Some(other) => Err(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind_name()
        )
        .into()),
    }
}
