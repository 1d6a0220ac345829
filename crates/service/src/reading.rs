//! Reading tables and views.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use glidepath_env::Env;
use glidepath_model::{Entry, Kind as EntryKind, Name};
use glidepath_protocols::group::Grouped;
use glidepath_protocols::table_turn::line::Line;
use glidepath_table::{FileError, Files, files};
use iceberg::spec::{TableMetadata, ViewMetadata};

use crate::bodies::{Body, LARGE, Loaded, Metadata, registration};
use crate::error::{Kind, ServiceError};
use crate::names::Identifier;
use crate::{Inner, Service};

/// The property of a table that is not Iceberg's: its format.
pub(crate) const FORMAT: &str = "glidepath.format";

/// Whether an entry is a table of Iceberg.
pub(crate) fn is_iceberg(entry: &Entry) -> bool {
    entry.kind == EntryKind::Table && entry.pointer.is_some() && !entry.properties.contains_key(FORMAT)
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// The catalog as it is now.
    pub(crate) async fn head(&self) -> Result<C::Snapshot, ServiceError> {
        self.inner.head().await
    }

    pub(crate) async fn entry(&self, at: &C::Snapshot, name: &Name) -> Result<Option<Entry>, ServiceError> {
        Ok(self.inner.committer.catalog().entry(at, name).await?)
    }

    /// A table, as it is now.
    ///
    /// # Errors
    /// [`Kind::NoTable`], or what is wrong with its metadata.
    pub async fn load_table(&self, table: &Identifier) -> Result<Loaded<TableMetadata>, ServiceError> {
        self.load_on(table, async || self.head().await).await
    }

    /// The same, if it can be told without waiting for anything: on local disk, if the system has all that is read in
    /// memory. `None` if not: nothing has been done then. Other loads are not waited for, and none is shared.
    pub fn load_table_at_once(&self, table: &Identifier) -> Option<Result<Loaded<TableMetadata>, ServiceError>> {
        let load = pin!(self.load_on(table, async || Ok(self.inner.committer.catalog().load().await?)));
        match load.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(loaded) => Some(loaded),
            Poll::Pending => None,
        }
    }

    async fn load_on(
        &self,
        table: &Identifier,
        head: impl AsyncFn() -> Result<C::Snapshot, ServiceError>,
    ) -> Result<Loaded<TableMetadata>, ServiceError> {
        let name = table.catalog_name()?;
        let mut missing = None;
        loop {
            let body = self.inner.newest(&name, &head).await?.map(|found| found.body);
            let body = body.ok_or_else(|| no_table(table))?;
            if self.inner.is_there(&body, &mut missing).await? {
                return Ok(body);
            }
        }
    }

    /// Whether there is such a table.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub async fn table_exists(&self, table: &Identifier) -> Result<bool, ServiceError> {
        let (at, name) = (self.head().await?, table.catalog_name()?);
        Ok(self.entry(&at, &name).await?.is_some_and(|entry| is_iceberg(&entry)))
    }

    /// Whether the files of a table may be in the folder at `location`: it is in the folder of the table's namespace,
    /// or is what the catalog itself says. What the metadata file says does not count, since those who write the files
    /// of a table may be able to change it.
    ///
    /// # Errors
    /// If the catalog cannot be read.
    pub async fn is_place_of(&self, table: &Identifier, location: &str) -> Result<bool, ServiceError> {
        let (at, name) = (self.head().await?, table.catalog_name()?);
        let entry = self.entry(&at, &name).await?.unwrap_or_else(Entry::namespace);
        Ok(self.inner.settings.is_place_of(&table.namespace, &entry, location))
    }

    /// A view, as it is now.
    ///
    /// # Errors
    /// [`Kind::NoView`], or what is wrong with its metadata.
    pub async fn load_view(&self, view: &Identifier) -> Result<Loaded<ViewMetadata>, ServiceError> {
        self.view_and_entry(view).await.map(|(body, _)| body)
    }

    /// The same, with what the catalog has of it.
    pub(crate) async fn view_and_entry(
        &self,
        view: &Identifier,
    ) -> Result<(Loaded<ViewMetadata>, Entry), ServiceError> {
        let name = view.catalog_name()?;
        let mut missing = None;
        loop {
            let entry = self.entry(&self.head().await?, &name).await?;
            let Some(entry @ Entry { kind: EntryKind::View, .. }) = entry else { return Err(no_view(view)) };
            let Some(pointer) = &entry.pointer else { return Err(no_view(view)) };
            let body = self.inner.body(pointer, registration(&entry)).await?;
            if self.inner.is_there(&body, &mut missing).await? {
                return Ok((body, entry));
            }
        }
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    pub(crate) async fn head(&self) -> Result<C::Snapshot, ServiceError> {
        Ok(self.loads.load(self.committer.catalog()).await?)
    }

    /// The table of a name, as it is now; `None` if there is none.
    pub(crate) async fn current(&self, name: &Name) -> Result<Option<Loaded<TableMetadata>>, ServiceError> {
        Ok(self.newest(name, &async || self.head().await).await?.map(|current| current.body))
    }

    /// The same, in the newest version of the catalog, which `head` finds.
    async fn newest(
        &self,
        name: &Name,
        head: &impl AsyncFn() -> Result<C::Snapshot, ServiceError>,
    ) -> Result<Option<Current>, ServiceError> {
        let mut missing = None;
        loop {
            let at = head().await?;
            let entry = self.committer.catalog().entry(&at, name).await?;
            let Some(entry) = entry.filter(is_iceberg) else { return Ok(None) };
            let Some(pointer) = entry.pointer.clone() else { return Ok(None) };
            match self.body(&pointer, registration(&entry)).await {
                // A file that was removed from the log of a table is deleted if the table asks for it: then the pointer
                // has moved meanwhile.
                Err(error) if error.kind == Kind::NoFile && missing.as_ref() != Some(&pointer) => {
                    missing = Some(pointer);
                }
                body => return body.map(|body| Some(Current { body, entry })),
            }
        }
    }

    /// The same for a commit, with the servers that wait for their turn there. Without its file, the table is broken;
    /// it is not absent, so the client must keep its files.
    pub(crate) async fn current_to_commit(
        &self,
        name: &Name,
    ) -> Result<Option<(Loaded<TableMetadata>, Line)>, ServiceError> {
        let current = self.newest(name, &async || self.head().await).await;
        let current = current.map_err(|error| match error.kind {
            Kind::NoFile => ServiceError::new(Kind::Broken, error.message),
            _ => error,
        });
        let Some(Current { body, mut entry }) = current? else { return Ok(None) };
        self.settings.check_place(name, &entry, body.metadata.location())?;
        Ok(Some((body, Line::take(&mut entry.properties))))
    }

    /// The metadata of a table or a view in a file, whose entry came to be by this registration.
    pub(crate) async fn body<M: Metadata>(
        &self,
        location: &str,
        registered: Option<&str>,
    ) -> Result<Loaded<M>, ServiceError> {
        match M::kept(&self.bodies).of_registration(location, registered) {
            Some(body) => Ok(body),
            None => self.fresh_body(location, registered).await,
        }
    }

    /// The same of an earlier version, which no entry names.
    pub(crate) async fn earlier_body<M: Metadata>(&self, location: &str) -> Result<Loaded<M>, ServiceError> {
        match M::kept(&self.bodies).get(location) {
            Some(body) => Ok(body),
            None => self.fresh_body(location, None).await,
        }
    }

    /// The same from the file in any case.
    pub(crate) async fn fresh_body<M: Metadata>(
        &self,
        location: &str,
        registered: Option<&str>,
    ) -> Result<Loaded<M>, ServiceError> {
        let body = self.read_body(location).await?;
        let body = Arc::new(Body { registered: registered.map(str::to_owned), ..body });
        M::kept(&self.bodies).put(Arc::clone(&body));
        Ok(body)
    }

    /// Whether this file, which is in memory, is still there; where a look is no request to another machine. If not, it
    /// is to be loaded again: a commit may have moved the pointer and removed the file from the log. An error if it was
    /// `missing` before.
    async fn is_there<M>(&self, body: &Body<M>, missing: &mut Option<String>) -> Result<bool, ServiceError> {
        if self.files.is_there(&body.location).await != Some(false) {
            return Ok(true);
        }
        match missing.replace(body.location.clone()).is_some_and(|before| before == body.location) {
            true => Err(no_file(&body.location)),
            false => Ok(false),
        }
    }

    /// A metadata file. Large ones are read one after the other.
    pub(crate) async fn read_body<M: Metadata>(&self, location: &str) -> Result<Body<M>, ServiceError> {
        let small = match self.files.read_up_to(location, LARGE).await {
            Ok(file) => Body::read(location, file, LARGE)?,
            Err(FileError::TooLarge { .. }) => None,
            Err(error) => return Err(no_body(error)),
        };
        if let Some(body) = small {
            return Ok(body);
        }
        let _only = self.bodies.large.lock().await;
        let file = self.files.read(location).await.map_err(no_body)?;
        Body::read(location, file, files::MOST)?
            .ok_or_else(|| no_body(FileError::TooLarge { location: location.to_owned(), most: files::MOST }))
    }
}

/// A table as it is now.
struct Current {
    body: Loaded<TableMetadata>,
    entry: Entry,
}

/// The catalog points to the file, so it is not the client's mistake that it cannot be read.
fn no_body(error: FileError) -> ServiceError {
    match error {
        FileError::NotFound(location) => no_file(&location),
        FileError::Outside { .. } => ServiceError::new(Kind::Broken, error.to_string()),
        error => error.into(),
    }
}

fn no_file(location: &str) -> ServiceError {
    let words = format!("Failed to open input stream for file: {location}: there is no such file");
    ServiceError::new(Kind::NoFile, words)
}

pub(crate) fn no_table(table: &Identifier) -> ServiceError {
    ServiceError::new(Kind::NoTable, format!("Table does not exist: {}", table.dotted()))
}

pub(crate) fn no_view(view: &Identifier) -> ServiceError {
    ServiceError::new(Kind::NoView, format!("View does not exist: {}", view.dotted()))
}
