//! Tests of comparing, as tables.
