//! Tests of the index of live objects.
