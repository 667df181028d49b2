//! Tests of the patches.
