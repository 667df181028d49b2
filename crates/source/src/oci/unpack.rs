//! Unpacks the layer of an artifact into a new directory. Blocking.
//!
//! The archive is not trusted. Only files, directories and links inside of the directory are
//! made. Symbolic links are made last, so that nothing is written through one.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::{Archive, EntryType, PaxExtensions};

use super::manifest::Format;
use crate::deadline;
use crate::links::can_be_followed;
use crate::render::checked::links_stay_inside;

/// Deepest directory.
const MAX_DEPTH: usize = 64;

/// Longest path, in bytes.
const MAX_PATH: usize = 4096;

/// Largest entry with further attributes of the next one, in bytes.
const MAX_ATTRIBUTES: u64 = 64 << 10;

/// Entries of an archive for each file that it may have: a directory for each, attributes, and
/// entries that are replaced or left out.
const ENTRIES_PER_FILE: usize = 4;

/// Limits on an archive.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnpackLimits {
    /// Of the archive without compression, and of its files together.
    pub bytes: u64,
    /// Files, directories and links.
    pub files: usize,
}

/// The most entries of an archive that may have so many files.
pub(super) const fn max_entries(files: usize) -> usize {
    files.saturating_mul(ENTRIES_PER_FILE)
}

/// Why an archive cannot be unpacked.
#[derive(Debug)]
pub(super) enum Failure {
    /// It has more bytes than allowed.
    Bytes,
    /// It has more files than allowed.
    Files,
    /// It has more entries than allowed, whatever becomes of them.
    Entries,
    /// It takes longer than allowed.
    Time,
    /// It is no archive, or has an entry that is not permitted.
    Invalid(String),
    /// The disk cannot be written.
    Io(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Unpacks an archive into `target`, which does not exist; the bytes of its files.
pub(super) fn unpack(
    packed: &mut File,
    format: Format,
    target: &Path,
    limits: UnpackLimits,
) -> Result<u64, Failure> {
    packed.seek(SeekFrom::Start(0))?;
    DirBuilder::new().mode(0o700).create(target)?;
    let packed = io::BufReader::new(packed);
    let mut unpacker = Unpacker {
        root: target,
        limits,
        bytes: 0,
        files: 0,
        entries: 0,
        made: HashSet::new(),
        links: Vec::new(),
        next: Attributes::default(),
    };
    match format {
        Format::Tar => unpacker.archive(packed)?,
        Format::TarGzip => unpacker.archive(MultiGzDecoder::new(packed))?,
    }
    unpacker.make_links()?;
    can_be_followed(target)
        .map_err(|limit| Failure::Invalid(format!("over the limit of {limit}")))?;
    links_stay_inside(target).map_err(|error| Failure::Invalid(error.to_string()))?;
    Ok(unpacker.bytes)
}

/// Moves the content of the only directory of `target` up into it: a chart is packed below its
/// name.
pub(super) fn lift_single_directory(target: &Path) -> Result<(), Failure> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(target)? {
        let entry = entry?;
        found.push((entry.path(), entry.file_type()?.is_dir()));
    }
    let [(directory, true)] = &found[..] else {
        let reason = format!("a chart is one directory, and there are {} entries", found.len());
        return Err(Failure::Invalid(reason));
    };
    // A name that nothing in the chart can have.
    let beside = target.with_extension("chart");
    std::fs::rename(directory, &beside)?;
    let moved = std::fs::remove_dir(target).and_then(|()| std::fs::rename(&beside, target));
    if moved.is_err() {
        std::fs::remove_dir_all(&beside)?;
    }
    moved?;
    // A link that was inside of the archive may lead out of the chart now.
    links_stay_inside(target).map_err(|error| Failure::Invalid(error.to_string()))
}

/// Attributes that precede an entry.
#[derive(Default)]
struct Attributes {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

struct Unpacker<'a> {
    root: &'a Path,
    limits: UnpackLimits,
    bytes: u64,
    files: usize,
    /// All entries of the archive so far.
    entries: usize,
    /// The directories that are there, relative to the root: none is looked for twice.
    made: HashSet<PathBuf>,
    /// Where each symbolic link is, and its target.
    links: Vec<(PathBuf, PathBuf)>,
    next: Attributes,
}

/// Reads at most as many bytes as are left; then it is an error.
struct Bounded<R> {
    inner: R,
    left: u64,
    is_over: std::rc::Rc<std::cell::Cell<bool>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        match self.left.checked_sub(read as u64) {
            Some(left) => {
                self.left = left;
                Ok(read)
            }
            None => {
                self.is_over.set(true);
                Err(io::Error::other("too many bytes"))
            }
        }
    }
}

impl Unpacker<'_> {
    fn archive(&mut self, reader: impl Read) -> Result<(), Failure> {
        let is_over = std::rc::Rc::new(std::cell::Cell::new(false));
        let left = self.limits.bytes;
        let reader = Bounded { inner: reader, left, is_over: is_over.clone() };
        let mut archive = Archive::new(reader);
        let unpacked = self.entries(&mut archive);
        match unpacked {
            Err(_) if is_over.get() => Err(Failure::Bytes),
            unpacked => unpacked,
        }
    }

    fn entries(&mut self, archive: &mut Archive<impl Read>) -> Result<(), Failure> {
        let broken = |error: io::Error| {
            let shown: String =
                error.to_string().chars().filter(|c| !c.is_control()).take(120).collect();
            Failure::Invalid(format!("it is no complete tar archive ({shown})"))
        };
        // Raw: attributes are read here, with a limit.
        for entry in archive.entries().map_err(broken)?.raw(true) {
            let mut entry = entry.map_err(broken)?;
            self.entries += 1;
            if self.entries > max_entries(self.limits.files) {
                return Err(Failure::Entries);
            }
            in_time()?;
            let header = entry.header();
            let kind = header.entry_type();
            if is_attribute(kind) {
                if entry.size() > MAX_ATTRIBUTES {
                    return Err(Failure::Invalid(format!(
                        "it has an entry with more than {MAX_ATTRIBUTES} bytes of attributes"
                    )));
                }
                let mut text = Vec::new();
                entry.read_to_end(&mut text).map_err(broken)?;
                self.attributes(kind, &text)?;
                continue;
            }
            let Attributes { path, link } = std::mem::take(&mut self.next);
            let path = path.unwrap_or_else(|| entry.header().path_bytes().into_owned());
            let link = link.or_else(|| header_link(&entry));
            let name = self.relative(&path)?;
            // As in a checkout of Git.
            if name.components().any(|part| part.as_os_str() == ".git") {
                continue;
            }
            // Old archives have directories as files whose names end with a slash.
            let kind = if path.ends_with(b"/") { EntryType::Directory } else { kind };
            match kind {
                EntryType::Directory => self.directory(&name)?,
                EntryType::Regular | EntryType::Continuous => {
                    let is_program = entry.header().mode().unwrap_or(0) & 0o100 != 0;
                    self.file(&name, is_program, &mut entry, &broken)?;
                }
                EntryType::Symlink => {
                    let target = inner_target(&name, &link.unwrap_or_default())?;
                    self.count()?;
                    self.links.push((name, target));
                }
                EntryType::Link => self.hard_link(&name, &link.unwrap_or_default())?,
                other => {
                    let at = shown(&path);
                    return Err(Failure::Invalid(format!(
                        "{at} is an entry of the type {:?}, and only files, directories and links \
                         are permitted",
                        char::from(other.as_byte())
                    )));
                }
            }
        }
        Ok(())
    }

    /// Attributes of the next entry.
    fn attributes(&mut self, kind: EntryType, text: &[u8]) -> Result<(), Failure> {
        let until_zero = |text: &[u8]| text.split(|byte| *byte == 0).next().map(<[u8]>::to_vec);
        match kind {
            EntryType::GNULongName => self.next.path = until_zero(text),
            EntryType::GNULongLink => self.next.link = until_zero(text),
            EntryType::XHeader => {
                for extension in PaxExtensions::new(text) {
                    let invalid = |_| Failure::Invalid("it has malformed attributes".to_owned());
                    let extension = extension.map_err(invalid)?;
                    match extension.key_bytes() {
                        b"path" => self.next.path = Some(extension.value_bytes().to_vec()),
                        b"linkpath" => self.next.link = Some(extension.value_bytes().to_vec()),
                        b"size" => {
                            let reason = "it has a file whose size is given apart; pack it as a \
                                          plain tar";
                            return Err(Failure::Invalid(reason.to_owned()));
                        }
                        key if key.starts_with(b"GNU.sparse.") => {
                            let reason = "it has a sparse file; pack it without --sparse";
                            return Err(Failure::Invalid(reason.to_owned()));
                        }
                        _ => {}
                    }
                }
            }
            // About all entries, such as the commit of `git archive`.
            _ => {}
        }
        Ok(())
    }

    /// Counts a file, a directory or a link.
    fn count(&mut self) -> Result<(), Failure> {
        self.files += 1;
        if self.files > self.limits.files { Err(Failure::Files) } else { Ok(()) }
    }

    fn charge(&mut self, bytes: u64) -> Result<(), Failure> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.limits.bytes { Err(Failure::Bytes) } else { Ok(()) }
    }

    /// The name of an entry below the root.
    fn relative(&self, path: &[u8]) -> Result<PathBuf, Failure> {
        let refused = |why: &str| Failure::Invalid(format!("the entry {} {why}", shown(path)));
        let text = std::str::from_utf8(path).map_err(|_| refused("has a name that is no UTF-8"))?;
        if text.len() > MAX_PATH || text.chars().any(char::is_control) {
            return Err(refused("has a name that is too long or has control characters"));
        }
        let mut name = PathBuf::new();
        for part in Path::new(text).components() {
            match part {
                Component::CurDir => {}
                Component::Normal(part) => name.push(part),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(refused("has an absolute path"));
                }
                Component::ParentDir => return Err(refused("has '..' in its path")),
            }
        }
        if name.components().count() > MAX_DEPTH {
            return Err(refused("is too deep"));
        }
        Ok(name)
    }

    /// Makes a directory with those above it.
    fn directory(&mut self, name: &Path) -> Result<(), Failure> {
        // From the first one that is missing; each is made once, and counted.
        let missing: Vec<&Path> = name
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && !self.made.contains(*path))
            .collect();
        for path in missing.into_iter().rev() {
            DirBuilder::new()
                .mode(0o700)
                .create(self.root.join(path))
                .map_err(|error| collision(error, name))?;
            self.count()?;
            self.made.insert(path.to_owned());
        }
        Ok(())
    }

    fn create(&mut self, name: &Path, is_program: bool) -> Result<File, Failure> {
        if name.as_os_str().is_empty() {
            return Err(Failure::Invalid("it has a file without a name".to_owned()));
        }
        self.directory(name.parent().unwrap_or(Path::new("")))?;
        self.count()?;
        let mode = if is_program { 0o700 } else { 0o600 };
        let mut options = OpenOptions::new();
        // A later entry of the same name replaces the file.
        let options = options.write(true).create(true).truncate(true).mode(mode);
        options.open(self.root.join(name)).map_err(|error| collision(error, name))
    }

    fn file(
        &mut self,
        name: &Path,
        is_program: bool,
        content: &mut impl Read,
        broken: &dyn Fn(io::Error) -> Failure,
    ) -> Result<(), Failure> {
        let mut file = self.create(name, is_program)?;
        let mut chunk = vec![0; 64 << 10];
        loop {
            let read = content.read(&mut chunk).map_err(broken)?;
            if read == 0 {
                return Ok(());
            }
            in_time()?;
            self.charge(read as u64)?;
            file.write_all(&chunk[..read])?;
        }
    }

    /// A hard link is a copy of a file that is there already.
    fn hard_link(&mut self, name: &Path, target: &[u8]) -> Result<(), Failure> {
        let from = self.root.join(self.relative(target)?);
        if !from.is_file() || name == self.relative(target)? {
            return Err(Failure::Invalid(format!(
                "{} is a hard link to {}, which is no file before it",
                name.display(),
                shown(target)
            )));
        }
        let mut content = File::open(&from)?;
        self.file(name, false, &mut content, &Failure::Io)
    }

    fn make_links(&mut self) -> Result<(), Failure> {
        for (name, target) in std::mem::take(&mut self.links) {
            in_time()?;
            // Not through a link that was made before: it is at the place of a directory then.
            self.directory(name.parent().unwrap_or(Path::new("")))?;
            symlink(target, self.root.join(&name)).map_err(|error| collision(error, &name))?;
        }
        Ok(())
    }
}

fn in_time() -> Result<(), Failure> {
    if deadline::is_over() { Err(Failure::Time) } else { Ok(()) }
}

fn is_attribute(kind: EntryType) -> bool {
    matches!(
        kind,
        EntryType::GNULongName
            | EntryType::GNULongLink
            | EntryType::XHeader
            | EntryType::XGlobalHeader
    )
}

fn header_link(entry: &tar::Entry<'_, impl Read>) -> Option<Vec<u8>> {
    entry.header().link_name_bytes().map(std::borrow::Cow::into_owned)
}

/// The target of a symbolic link, which must be inside of the root.
fn inner_target(name: &Path, target: &[u8]) -> Result<PathBuf, Failure> {
    let refused = |why: &str| {
        let (name, target) = (name.display(), shown(target));
        Failure::Invalid(format!("{name} is a link to {target}, which {why}"))
    };
    let text = std::str::from_utf8(target).ok().filter(|text| !text.is_empty());
    let text = text.ok_or_else(|| refused("is no name"))?;
    if text.len() > MAX_PATH || text.chars().any(char::is_control) {
        return Err(refused("is too long or has control characters"));
    }
    let mut depth = name.components().count().saturating_sub(1);
    for part in Path::new(text).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
            Component::ParentDir => {
                depth =
                    depth.checked_sub(1).ok_or_else(|| refused("is outside of the artifact"))?;
            }
            Component::RootDir | Component::Prefix(_) => {
                return Err(refused("is an absolute path"));
            }
        }
    }
    Ok(PathBuf::from(text))
}

/// Two entries that cannot be at one place.
fn collision(error: io::Error, name: &Path) -> Failure {
    use io::ErrorKind::{AlreadyExists, InvalidFilename, IsADirectory, NotADirectory};
    match error.kind() {
        AlreadyExists | IsADirectory | NotADirectory => Failure::Invalid(format!(
            "{} is at the place of another entry of another type",
            name.display()
        )),
        InvalidFilename => Failure::Invalid(format!("{} is too long a name", name.display())),
        _ => Failure::Io(error),
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    format!("{:?}", text.chars().take(120).collect::<String>())
}
