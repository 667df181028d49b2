//! Names, manifests, challenges and archives.
