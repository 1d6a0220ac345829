//! Which file or folder is where?

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path};

use super::kept::{Content, Kept, Naming};

/// The topmost folder, which is always there.
const TOP: u64 = 0;

pub(super) enum Node {
    File(Kept<Content>),
    Folder(Kept<Naming>),
}

/// All files and folders, by number.
pub(super) struct Tree {
    nodes: BTreeMap<u64, Node>,
    next: u64,
}

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(TOP, Node::Folder(Kept::default()))]), next: TOP + 1 }
    }
}

impl Tree {
    pub(super) fn node(&mut self, node: u64) -> io::Result<&mut Node> {
        self.nodes.get_mut(&node).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn file(&mut self, node: u64) -> io::Result<&mut Kept<Content>> {
        match self.node(node)? {
            Node::File(file) => Ok(file),
            Node::Folder(_) => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    pub(super) fn folder(&mut self, node: u64) -> io::Result<&mut Kept<Naming>> {
        match self.node(node)? {
            Node::Folder(folder) => Ok(folder),
            Node::File(_) => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// What a path leads to.
    pub(super) fn find(&self, path: &Path) -> Option<u64> {
        let mut node = TOP;
        for component in path.components() {
            if let Component::Normal(name) = component {
                let Some(Node::Folder(folder)) = self.nodes.get(&node) else { return None };
                node = *folder.visible().get(name.to_str()?)?;
            }
        }
        Some(node)
    }

    pub(super) fn content(&self, node: u64) -> Option<&[u8]> {
        match self.nodes.get(&node)? {
            Node::File(file) => Some(file.visible()),
            Node::Folder(_) => None,
        }
    }

    pub(super) fn need(&self, path: &Path) -> io::Result<u64> {
        self.find(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// The folder that a path is in, and the name there.
    fn place(&self, path: &Path) -> io::Result<(u64, String)> {
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidFilename))?;
        Ok((self.need(path.parent().unwrap_or(path))?, name.to_owned()))
    }

    pub(super) fn create(&mut self, path: &Path, node: Node) -> io::Result<u64> {
        let (folder, name) = self.place(path)?;
        let number = self.next;
        let folder = self.folder(folder)?;
        if folder.visible().contains_key(&name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        folder.change(Naming::Given(name, number));
        self.nodes.insert(number, node);
        self.next += 1;
        Ok(number)
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let node = self.need(from)?;
        let ((old, old_name), (new, new_name)) = (self.place(from)?, self.place(to)?);
        if let Some(there) = self.folder(new)?.visible().get(&new_name).copied() {
            let is_folder = |node: &Node| matches!(node, Node::Folder(_));
            if is_folder(self.node(there)?) || is_folder(self.node(node)?) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
        }
        self.folder(new)?.change(Naming::Given(new_name, node));
        self.folder(old)?.change(Naming::Taken(old_name));
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let node = self.need(path)?;
        self.file(node)?;
        let (folder, name) = self.place(path)?;
        self.folder(folder)?.change(Naming::Taken(name));
        Ok(())
    }

    pub(super) fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        let node = self.need(path)?;
        if !self.folder(node)?.visible().is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let (folder, name) = self.place(path)?;
        self.folder(folder)?.change(Naming::Taken(name));
        Ok(())
    }

    /// The power fails. Files that no name leads to any more are gone.
    pub(super) fn cut(&mut self, survives: &mut dyn FnMut() -> bool) {
        for node in self.nodes.values_mut() {
            match node {
                Node::File(file) => file.cut(survives),
                Node::Folder(folder) => folder.cut(survives),
            }
        }
        let (mut reached, mut next) = (BTreeSet::from([TOP]), vec![TOP]);
        while let Some(node) = next.pop() {
            if let Some(Node::Folder(folder)) = self.nodes.get(&node) {
                next.extend(folder.visible().values().filter(|below| reached.insert(**below)));
            }
        }
        self.nodes.retain(|node, _| reached.contains(node));
    }

    /// The files, by path.
    pub(super) fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let content = |(path, node): (String, u64)| Some((path, self.content(node)?.to_vec()));
        self.walk().into_iter().filter_map(content).collect()
    }

    /// All files and folders with their paths.
    fn walk(&self) -> Vec<(String, u64)> {
        let (mut found, mut next) = (Vec::new(), vec![(String::new(), TOP)]);
        while let Some((path, node)) = next.pop() {
            if let Some(Node::Folder(folder)) = self.nodes.get(&node) {
                next.extend(folder.visible().iter().map(|(name, node)| (format!("{path}/{name}"), *node)));
            }
            found.push((path, node));
        }
        found
    }
}
