//! The archive of files that a plugin gets.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};

use crate::deadline;
use crate::directory::source_directory::SourceDirectory;
use crate::render::checked::{MAX_ENTRIES, links_stay_inside};
use crate::render::manifest::RenderError;

/// An archive in a file without a name.
pub(super) struct Archive {
    pub file: File,
    pub size: u64,
    /// SHA-256, in hexadecimal digits.
    pub checksum: String,
    /// The directory of the source inside of it.
    pub app_path: String,
}

/// Packs a folder of a checkout, relative to its root, that contains the source. Entries whose
/// path in the archive matches one of `exclusions` are left out, and so is `.git`.
///
/// # Errors
///
/// When a link leaves the checkout, when the archive has more than `limit` bytes, and when no
/// file is left.
pub(super) fn pack(
    source_dir: &SourceDirectory,
    folder: &str,
    exclusions: &[String],
    limit: u64,
) -> Result<Archive, RenderError> {
    links_stay_inside(&source_dir.root)?;
    let root = source_dir.root.join(folder);
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::FileTooLarge => RenderError::too_large(format!(
            "the files for the plugin have more than {} MiB; leave some out by \
                 reposerver.plugin.tar.exclusions",
            limit >> 20
        )),
        _ => RenderError::read(folder, error),
    };
    let file = tempfile::tempfile_in(&source_dir.temporary).map_err(failed)?;
    let writer = Hashed { file, hash: Sha256::new(), size: 0, limit };
    let mut packer = Packer {
        archive: tar::Builder::new(GzEncoder::new(writer, Compression::fast())),
        exclusions,
        entries: 0,
        files: 0,
    };
    packer.archive.follow_symlinks(false);
    packer.folder(&root, Path::new("")).map_err(failed)?;
    let files = packer.files;
    let written = packer.archive.into_inner().and_then(GzEncoder::finish).map_err(failed)?;
    if files == 0 {
        return Err(RenderError::source(
            "there is no file for the plugin; check reposerver.plugin.tar.exclusions",
        ));
    }
    let checksum = HEXLOWER.encode(&written.hash.finalize());
    let below = Path::new(&source_dir.relative).strip_prefix(folder).unwrap_or(Path::new(""));
    let app_path = match below.to_string_lossy() {
        path if path.is_empty() => ".".to_owned(),
        path => path.into_owned(),
    };
    Ok(Archive { file: written.file, size: written.size, checksum, app_path })
}

struct Packer<'a> {
    archive: tar::Builder<GzEncoder<Hashed>>,
    exclusions: &'a [String],
    entries: usize,
    files: usize,
}

impl Packer<'_> {
    /// Adds the content of a folder, in lexical order, without times and owners: the same
    /// files give the same archive.
    fn folder(&mut self, folder: &Path, below: &Path) -> io::Result<()> {
        let mut entries = std::fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            if deadline::is_over() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(io::Error::other(format!("more than {MAX_ENTRIES} files")));
            }
            let name = below.join(entry.file_name());
            let shown = name.to_string_lossy();
            let excluded = self
                .exclusions
                .iter()
                .any(|glob| wavegate_api::glob::glob_allows(glob, &shown, Some('/')));
            if excluded || entry.file_name() == ".git" {
                continue;
            }
            let kind = entry.file_type()?;
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            if kind.is_dir() {
                header.set_entry_type(tar::EntryType::Directory);
                header.set_mode(0o755);
                self.archive.append_data(&mut header, &name, io::empty())?;
                self.folder(&entry.path(), &name)?;
            } else if kind.is_symlink() {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_mode(0o777);
                let target = std::fs::read_link(entry.path())?;
                self.archive.append_link(&mut header, &name, target)?;
            } else if kind.is_file() {
                let file = File::open(entry.path())?;
                let meta = file.metadata()?;
                let executable = meta.permissions().mode() & 0o100 != 0;
                header.set_mode(if executable { 0o755 } else { 0o644 });
                header.set_size(meta.len());
                self.archive.append_data(&mut header, &name, io::Read::take(file, meta.len()))?;
                self.files += 1;
            }
        }
        Ok(())
    }
}

/// Writes a file of limited size, and its digest.
struct Hashed {
    file: File,
    hash: Sha256,
    size: u64,
    limit: u64,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.size += written as u64;
        if self.size > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
