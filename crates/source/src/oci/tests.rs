//! Manifests, challenges, digests and archives.

use std::io::{Seek, SeekFrom, Write};

use super::challenge::Challenge;
use super::digest::ContentDigest;
use super::manifest::{self, Format};
use super::session::is_same_domain;
use super::unpack::{Failure, UnpackLimits, lift_single_directory, unpack};
use super::{ArtifactSettings, is_artifact, is_tag};

#[test]
fn sources_tags_and_digests_are_told_apart() {
    for (url, want) in
        [("oci://h/a", true), ("OCI://h/a", true), ("h/a", false), ("https://h/a", false)]
    {
        assert_eq!(is_artifact(url), want, "{url}");
    }
    let long = "a".repeat(129);
    for (tag, want) in [
        ("1.0", true),
        ("_x", true),
        ("v1-a_b", true),
        (".x", false),
        ("a+b", false),
        (&*long, false),
    ] {
        assert_eq!(is_tag(tag), want, "{tag}");
    }
    let digest = ContentDigest::of(b"abc");
    let text = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(digest.text(), text);
    assert_eq!(ContentDigest::parse(text), Some(digest));
    let long = ContentDigest::parse(&format!("sha512:{}", "0a".repeat(64))).unwrap();
    assert_eq!(long.hasher().finish().text().len(), "sha512:".len() + 128);
    for odd in [&text[..70], &text.to_uppercase(), "md5:00", "sha256:", "../x", ""] {
        assert_eq!(ContentDigest::parse(odd), None, "{odd}");
    }
}

#[test]
fn challenges_are_read_with_their_quotes() {
    let bearer = |realm: &str, service: &str, scope: &str| {
        let [realm, service, scope] = [realm, service, scope].map(str::to_owned);
        Some(Challenge::Bearer { realm, service, scope })
    };
    for (header, want) in [
        ("Basic realm=\"x\"", Some(Challenge::Basic)),
        (
            "Bearer realm=\"https://h/t\",service=\"a,b\", scope=\"repository:x:pull,push\"",
            bearer("https://h/t", "a,b", "repository:x:pull,push"),
        ),
        ("bearer service=s, realm=https://h", bearer("https://h", "s", "")),
        ("Bearer realm=\"a\\\"b\"", bearer("a\"b", "", "")),
        ("Bearer realm=\"open", bearer("open", "", "")),
        ("Bearer realm=\"é\",service=\"ü", bearer("é", "ü", "")),
        ("Bearer", bearer("", "", "")),
        ("Negotiate", None),
        ("", None),
    ] {
        assert_eq!(Challenge::parse(header), want, "{header}");
    }
}

#[test]
fn the_layer_of_a_manifest_is_the_only_one() {
    let types = ArtifactSettings::default().layer_media_types;
    let digest = ContentDigest::of(b"");
    let layer =
        |kind: &str| serde_json::json!({"mediaType": kind, "digest": digest.text(), "size": 3});
    let read = |layers: serde_json::Value| {
        let manifest = serde_json::json!({"layers": layers}).to_string();
        manifest::layer(manifest.as_bytes(), &types)
    };
    let gzip = "application/vnd.oci.image.layer.v1.tar+gzip";
    let found = read(serde_json::json!([layer(gzip)])).unwrap();
    assert_eq!((found.format, found.size, found.is_chart), (Format::TarGzip, 3, false));
    assert!(read(serde_json::json!([layer(manifest::CHART)])).unwrap().is_chart);
    let mut odd = layer(gzip);
    odd["digest"] = "sha256:../../x".into();
    assert!(read(serde_json::json!([odd])).unwrap_err().contains("without a valid digest"));
    odd = layer(gzip);
    odd["size"] = (-1).into();
    assert!(read(serde_json::json!([odd])).is_err());
    for (layers, want) in [
        (serde_json::json!({}), "has 0 layers with files"),
        (serde_json::json!([null]), "has 0 layers with files, of the media types []"),
        (serde_json::json!([layer("a\nb"), layer("c")]), "of the media types [ab, c]"),
        (serde_json::json!([layer("a\nb.tar")]), "\"ab.tar\", which is not permitted"),
        (serde_json::json!(vec![layer("c"); 11]), "has 11 layers, and at most 10"),
    ] {
        let error = read(layers).unwrap_err();
        assert!(error.contains(want), "{error}");
    }
    let custom = ["application/zip".to_owned()];
    let manifest = serde_json::json!({"layers": [layer("application/zip")]}).to_string();
    let error = manifest::layer(manifest.as_bytes(), &custom).unwrap_err();
    assert!(error.contains("neither a tar"), "{error}");
}

/// One entry: the type, the name as it is, the target of a link, and the content.
type Entry<'a> = (u8, &'a [u8], &'a str, &'a [u8]);

fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, name, link, content) in entries {
        let mut header = tar::Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(tar::EntryType::new(*kind));
        header.set_mode(0o777);
        header.set_size(content.len() as u64);
        header.set_cksum();
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

struct Unpacked {
    folder: tempfile::TempDir,
    result: Result<u64, Failure>,
}

fn unpacked(bytes: &[u8], format: Format, limits: UnpackLimits) -> Unpacked {
    let folder = tempfile::tempdir().unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    let target = folder.path().canonicalize().unwrap().join("target");
    let result = unpack(&mut file, format, &target, limits);
    Unpacked { folder, result }
}

const LIMITS: UnpackLimits = UnpackLimits { bytes: 1 << 20, files: 100 };

impl Unpacked {
    fn reason(self) -> String {
        match self.result.unwrap_err() {
            Failure::Invalid(reason) => reason,
            other => format!("{other:?}"),
        }
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("target").join(path)).unwrap()
    }
}

#[test]
fn files_directories_and_inner_links_are_unpacked() {
    let entries: [Entry<'_>; 12] = [
        (b'g', b"pax_global_header", "", b"19 comment=0123456\n"),
        (b'5', b"./", "", b""),
        (b'5', b"./a/", "", b""),
        (b'0', b"./a/one", "", b"1"),
        (b'0', b"a/one", "", b"2"),
        (0, b"old/", "", b""),
        (b'2', b"a/link", "../b/two", b""),
        (b'0', b"b/two", "", b"two"),
        (b'1', b"b/hard", "a/one", b""),
        (b'L', b"././@LongLink", "", b"c/long-name\0"),
        (b'0', b"c/long", "", b"long"),
        (b'0', b".git/config", "", b"[core]"),
    ];
    let done = unpacked(&archive(&entries), Format::Tar, LIMITS);
    assert!(done.result.is_ok(), "{:?}", done.result);
    for (path, want) in
        [("a/one", "2"), ("a/link", "two"), ("b/hard", "2"), ("c/long-name", "long")]
    {
        assert_eq!(done.text(path), want, "{path}");
    }
    let target = done.folder.path().join("target");
    assert!(target.join("old").is_dir() && !target.join(".git").exists());

    let pax: [Entry<'_>; 2] = [(b'x', b"x", "", b"15 path=d/name\n"), (b'0', b"short", "", b"pax")];
    let done = unpacked(&archive(&pax), Format::Tar, LIMITS);
    assert!(done.result.is_ok(), "{:?}", done.result);
    assert_eq!(done.text("d/name"), "pax");
}

/// What leaves the directory, or may, is refused, and nothing is written outside.
#[test]
fn hostile_archives_are_refused_by_name() {
    let deep = b"a/".repeat(70);
    let cases: &[(&str, &[Entry<'_>], &str)] = &[
        ("absolute", &[(b'0', b"/etc/x", "", b"x")], "\"/etc/x\" has an absolute path"),
        ("above", &[(b'0', b"a/../../x", "", b"x")], "has '..' in its path"),
        ("link above", &[(b'2', b"a/l", "../../x", b"")], "is outside of the artifact"),
        ("absolute link", &[(b'2', b"l", "/etc/passwd", b"")], "is an absolute path"),
        (
            "through a link",
            &[(b'2', b"l", "d", b""), (b'5', b"d", "", b""), (b'0', b"l/x", "", b"x")],
            "at the place of another entry",
        ),
        (
            "links of links",
            &[
                (b'5', b"d/e", "", b""),
                (b'2', b"l", "d/e", b""),
                // Inside by its name, and outside through the other link.
                (b'2', b"m", "l/../../../x", b""),
            ],
            "is outside of the artifact",
        ),
        (
            "a chain of links",
            &[(b'2', b"a/b/l", "..", b""), (b'2', b"m", "a/b/l/../../x", b"")],
            "",
        ),
        ("link to itself", &[(b'2', b"l", "l", b"")], ""),
        ("hard link out", &[(b'1', b"l", "../x", b"")], "has '..' in its path"),
        ("hard link to nothing", &[(b'1', b"l", "x", b"")], "is no file before it"),
        (
            "hard link to itself",
            &[(b'0', b"l", "", b"x"), (b'1', b"l", "l", b"")],
            "is no file before it",
        ),
        ("device", &[(b'3', b"d", "", b"")], "of the type '3'"),
        ("pipe", &[(b'6', b"d", "", b"")], "of the type '6'"),
        ("sparse", &[(b'S', b"d", "", b"")], "of the type 'S'"),
        ("no name", &[(b'0', b"./", "", b"")], ""),
        ("control", &[(b'0', b"a\x1b[2J", "", b"")], "control characters"),
        ("not UTF-8", &[(b'0', b"a\xff", "", b"")], "no UTF-8"),
        (
            "file and directory",
            &[(b'0', b"a", "", b""), (b'0', b"a/b", "", b"")],
            "at the place of another entry",
        ),
        ("long attributes", &[(b'x', b"a", "", &[b'1'; 70_000])], "bytes of attributes"),
        ("size apart", &[(b'x', b"a", "", b"10 size=9\n")], "size is given apart"),
        ("pax above", &[(b'x', b"x", "", b"13 path=../x\n"), (b'0', b"a", "", b"")], "'..'"),
        ("too deep", &[(b'L', b"x", "", &deep), (b'0', b"x", "", b"x")], "is too deep"),
    ];
    for (name, entries, want) in cases {
        let done = unpacked(&archive(entries), Format::Tar, LIMITS);
        let folder = done.folder.path().to_owned();
        let outside: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
        assert_eq!(outside.len(), 1, "{name}");
        if want.is_empty() {
            // Permitted, or not: never a way out.
            let root = folder.canonicalize().unwrap();
            for entry in std::fs::read_dir(folder.join("target")).unwrap().flatten() {
                let at = entry.path().canonicalize();
                assert!(at.is_err() || at.unwrap().starts_with(&root), "{name}");
            }
            continue;
        }
        let reason = done.reason();
        assert!(reason.contains(want), "{name}: {reason}");
    }
    for bytes in [&b"no archive"[..], &[1_u8; 2048]] {
        for format in [Format::Tar, Format::TarGzip] {
            let reason = unpacked(bytes, format, LIMITS).reason();
            assert!(reason.contains("no complete tar archive"), "{reason}");
        }
    }
}

#[test]
fn archives_are_limited_in_bytes_and_files() {
    let large = archive(&[(b'0', b"a", "", &vec![b'x'; 2 << 20])]);
    assert!(matches!(unpacked(&large, Format::Tar, LIMITS).result, Err(Failure::Bytes)));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        encoder.write_all(&large).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    assert!(bomb.len() < 1 << 20);
    assert!(matches!(unpacked(&bomb, Format::TarGzip, LIMITS).result, Err(Failure::Bytes)));
    // Copies of one file.
    let content = vec![b'x'; 300 << 10];
    let names: Vec<String> = (0..8).map(|index| format!("copy-{index}")).collect();
    let mut entries: Vec<Entry<'_>> = vec![(b'0', b"a", "", &content)];
    entries.extend(names.iter().map(|name| (b'1', name.as_bytes(), "a", &b""[..])));
    let copies = unpacked(&archive(&entries), Format::Tar, LIMITS);
    assert!(matches!(copies.result, Err(Failure::Bytes)));
    let names: Vec<String> = (0..101).map(|index| index.to_string()).collect();
    for kind in [b'0', b'5', b'2'] {
        let many: Vec<Entry<'_>> =
            names.iter().map(|name| (kind, name.as_bytes(), "x", &b""[..])).collect();
        let done = unpacked(&archive(&many), Format::Tar, LIMITS);
        assert!(matches!(done.result, Err(Failure::Files)), "{kind}: {:?}", done.result);
    }
}

/// A chart is the only directory, and its links stay in it.
#[test]
fn the_directory_of_a_chart_becomes_the_root() {
    let chart: [Entry<'_>; 2] =
        [(b'0', b"web/Chart.yaml", "", b"x"), (b'0', b"web/web/x", "", b"y")];
    let done = unpacked(&archive(&chart), Format::Tar, LIMITS);
    let target = done.folder.path().canonicalize().unwrap().join("target");
    lift_single_directory(&target).unwrap();
    assert_eq!((done.text("Chart.yaml"), done.text("web/x")), ("x".to_owned(), "y".to_owned()));
    for entries in [
        &[(b'0', &b"a/x"[..], "", &b""[..]), (b'0', b"b/x", "", b"")][..],
        &[(b'0', b"file", "", b"")],
        &[],
        // Inside of the archive, and outside of the chart.
        &[(b'0', b"web/x", "", b""), (b'2', b"web/link", "../other", b"")],
    ] {
        let done = unpacked(&archive(entries), Format::Tar, LIMITS);
        assert!(done.result.is_ok());
        let target = done.folder.path().canonicalize().unwrap().join("target");
        assert!(matches!(lift_single_directory(&target), Err(Failure::Invalid(_))));
    }
}

/// A layer of a few hundred kilobytes that repeats one deep directory was unpacked for minutes:
/// an entry that adds no file was counted nowhere, and cost its depth in requests of the system.
#[test]
fn entries_are_counted_whatever_becomes_of_them() {
    let deep = ["a"; 45].join("/") + "/";
    let limits = UnpackLimits { bytes: 64 << 20, files: 50 };
    let repeated = |kind: u8, name: &[u8], times: usize| {
        let entries = vec![(kind, name, "", &b""[..]); times];
        unpacked(&archive(&entries), Format::Tar, limits).result
    };
    assert!(repeated(b'5', deep.as_bytes(), 200).is_ok(), "each directory is made once");
    for (kind, name) in [(b'5', deep.as_bytes()), (b'0', b".git/x"), (b'g', b"x"), (b'L', b"x")] {
        let failed = repeated(kind, name, 201).unwrap_err();
        assert!(matches!(failed, Failure::Entries), "{kind} {failed:?}");
    }
    let failed = repeated(b'0', b"same", 51).unwrap_err();
    assert!(matches!(failed, Failure::Files), "{failed:?}");
}

/// Entries of an archive, its directories, and what a registry says of how to log in.
#[test]
fn time_grows_with_what_a_registry_sends_and_not_with_its_square() {
    use crate::tests::growth::measured::assert_linear;
    let limits = UnpackLimits { bytes: 1 << 30, files: 1 << 20 };
    type Shape = fn(usize) -> String;
    let shapes: [(&str, Shape); 3] = [
        ("files of one directory", |n| format!("f{n}")),
        ("files of many directories", |n| format!("a{n}/b/c/f")),
        ("files below many", |n| format!("{}f{n}", "a/".repeat(40))),
    ];
    for (what, of_name) in shapes {
        let make = |count: usize| {
            let names: Vec<String> = (0..count).map(of_name).collect();
            let entry = |name: &'static [u8]| (b'0', name, "", &b"1"[..]);
            let names: Vec<&'static [u8]> =
                names.into_iter().map(|name| &*name.into_bytes().leak()).collect();
            archive(&names.into_iter().map(entry).collect::<Vec<_>>())
        };
        assert_linear(what, 250, make, |layer| drop(unpacked(layer, Format::Tar, limits)));
    }
    for part in ["a=b,", "a=\"b\",", "a=\"", "a=\"\\", "=", ",", " a = b ,"] {
        let make = |count: usize| format!("Bearer {}", part.repeat(count));
        assert_linear(part, 20_000, make, |header| drop(Challenge::parse(header)));
    }
}

/// Nothing stops the thread that unpacks, so it asks for its time.
#[test]
fn unpacking_ends_in_time() {
    let layer = archive(&[(b'0', b"a", "", b"1")]);
    let run =
        |limit| crate::deadline::limited(limit, || unpacked(&layer, Format::Tar, LIMITS).result);
    assert!(run(std::time::Duration::from_secs(600)).is_ok());
    assert!(matches!(run(std::time::Duration::ZERO), Err(Failure::Time)));
    assert!(unpacked(&layer, Format::Tar, LIMITS).result.is_ok(), "only within its work");
}

/// A registry names where tokens are given, and user name and password are sent there.
#[test]
fn user_name_and_password_stay_in_the_domain_of_the_registry() {
    for (registry, other, want) in [
        ("registry-1.docker.io", "auth.docker.io", true),
        ("registry.gitlab.com", "gitlab.com", true),
        ("registry.example.com", "login.deep.example.com", true),
        ("Registry.example.com", "registry.EXAMPLE.com.", true),
        ("ghcr.io", "ghcr.io", true),
        ("ghcr.io", "auth.ghcr.io", true),
        ("ghcr.io", "evil.io", false),
        ("ghcr.io", "io", false),
        ("registry.example.com", "example.com.evil.com", false),
        ("registry.example.com", "evilexample.com", false),
        ("registry.example.com", "com", false),
        ("registry.example.com", "127.0.0.1", false),
        ("127.0.0.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", false),
        ("127.0.0.1", "evil.0.0.1", false),
        ("[::1]", "[::2]", false),
        ("registry", "registry", true),
        ("registry", "other", false),
        ("registry", "x.registry", false),
        ("registry", "", false),
    ] {
        assert_eq!(is_same_domain(registry, other), want, "{registry} {other}");
    }
}
