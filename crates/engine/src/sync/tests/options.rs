//! How objects are applied (V-106 to V-108 and section 7).

use super::super::options::{AppOptions, ApplyMethod, Propagation, Prune, method};
use super::super::*;
use super::world::{Manifest, manifest};

fn app(options: &[&str]) -> AppOptions {
    let sync_options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
    AppOptions::of(&sync_options)
}

#[test]
fn methods() {
    let plain = || manifest("ConfigMap", "c");
    let crd = || manifest("CustomResourceDefinition", "c").defines("x.io", "Widget");
    let forced = ResolvedOperation { force: true, ..ResolvedOperation::default() };
    type Case = (&'static str, Manifest, Option<Manifest>, AppOptions, ApplyMethod, bool);
    let cases: Vec<Case> = vec![
        ("SE-340", plain(), None, app(&[]), ApplyMethod::ClientSide, false),
        ("SE-321", plain(), None, app(&["ServerSideApply=true"]), ApplyMethod::ServerSide, false),
        (
            "V-107",
            plain().options("ServerSideApply=false"),
            None,
            app(&["ServerSideApply=true"]),
            ApplyMethod::ClientSide,
            false,
        ),
        (
            "V-108",
            plain(),
            None,
            app(&["Replace=true", "ServerSideApply=true"]),
            ApplyMethod::Replace,
            false,
        ),
        (
            "V-106",
            crd(),
            Some(crd()),
            AppOptions { force: true, ..app(&["Replace=true"]) },
            ApplyMethod::Update,
            false,
        ),
        (
            "SE-320 of an Application",
            plain(),
            None,
            app(&["Force=true"]),
            ApplyMethod::ClientSide,
            false,
        ),
        ("SE-351", crd(), None, app(&["Replace=true"]), ApplyMethod::Replace, false),
        (
            "SE-319 on live",
            plain(),
            Some(plain().options("Replace=true")),
            app(&[]),
            ApplyMethod::Replace,
            false,
        ),
        (
            "SE-319 false per resource",
            plain().options("Replace=false"),
            None,
            app(&["Replace=true"]),
            ApplyMethod::ClientSide,
            false,
        ),
        ("SE-320", plain().options("Force=true"), None, app(&[]), ApplyMethod::ClientSide, true),
        ("SE-043", plain(), None, forced.options(), ApplyMethod::ClientSide, true),
    ];
    for (row, target, live, app, how, force) in cases {
        let got = method(&target.0, live.as_ref().map(|live| &live.0), &app, false);
        assert_eq!((got.how, got.force), (how, force), "{row}");
        assert!(got.validate, "{row}");
    }
    let got = method(&plain().0, None, &app(&["ServerSideApply=true"]), false);
    assert!(got.migrate, "SE-322");
    let off = app(&["ServerSideApply=true", "ClientSideApplyMigration=false", "Validate=false"]);
    let got = method(&plain().0, None, &off, false);
    assert!(!got.migrate && !got.validate, "SE-310, SE-322");
    assert_eq!(method(&plain().0, None, &app(&[]), true).how, ApplyMethod::Create, "SE-193");
}

#[test]
fn options_of_an_operation() {
    for (options, want) in [
        (vec![], Propagation::Foreground),
        (vec!["PrunePropagationPolicy=orphan"], Propagation::Orphan),
        (
            vec!["PrunePropagationPolicy=foreground", "PrunePropagationPolicy=background"],
            Propagation::Background,
        ),
    ] {
        assert_eq!(app(&options).propagation, want, "SE-317");
    }
    assert_eq!(app(&["Prune=confirm", "Prune=false"]).prune, Some(Prune::Confirm), "SE-019");
    assert_eq!(app(&["prune=false"]).problems, ["unknown sync option prune=false"], "SE-302");
}
