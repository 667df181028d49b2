//! The size of a value as JSON, without its text.

use std::io::{Result, Write};

use serde::Serialize;

/// The bytes of a value as JSON.
pub fn json_bytes(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting does not fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn the_size_is_that_of_the_text() {
        for value in [json!(null), json!({"a": [1, "x"], "b": {"c": 0.5}}), json!("ä\n")] {
            assert_eq!(super::json_bytes(&value), value.to_string().len(), "{value}");
        }
    }
}
