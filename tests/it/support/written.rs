//! What is computed, compared with a text in a file that is read with each change of it. Used by
//! the tests of several crates.

/// Fails when `text` is not that of `file`, which is a path in this crate. With
/// `WAVEGATE_REGENERATE=1` the file is written.
pub fn compare(file: &str, text: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var_os("WAVEGATE_REGENERATE").is_some() {
        return std::fs::write(path, text).unwrap();
    }
    #[allow(clippy::disallowed_methods, reason = "a test may read its files")]
    let known = std::fs::read_to_string(path).unwrap();
    if known == text {
        return;
    }
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (known, now) = (lines(&known), lines(text));
    let at = known.iter().zip(&now).take_while(|(known, now)| known == now).count();
    let around = |lines: &[String]| {
        lines.iter().skip(at.saturating_sub(6)).take(10).cloned().collect::<Vec<_>>().join("\n")
    };
    panic!(
        "{file}, line {}: WAVEGATE_REGENERATE=1 writes what it is now\n{}\n--- and is now\n{}",
        at + 1,
        around(&known),
        around(&now)
    );
}
