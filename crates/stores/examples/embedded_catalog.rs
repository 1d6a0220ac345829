//! A program that keeps its tables in a catalog of its own, here on local disk; another URL is another store.
//!
//! ```sh
//! cargo run -p glidepath-stores --example embedded_catalog [file:///directory]
//! ```
//!
//! Run it twice: the second run finds what the first one left. `glidepath catalog list` shows it too.

use std::error::Error;
use std::sync::Arc;

use glidepath_env::{Denial, Env, Purpose};
use glidepath_model::{Action, Advance, Entry, MetadataId, Name, PartitionId, Refusal, TableState};
use glidepath_protocols::group::{CommitError, Committer, Group, Leader, RetryPolicy};
use glidepath_protocols::manifest_chain::{Layout, ManifestChain, SharedState};
use glidepath_protocols::{Catalog, Outcome};
use glidepath_stores::{LiveEnv, Options, open};

type Chain = ManifestChain<LiveEnv>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A temporary folder, unless a URL is given.
    let folder = tempfile::tempdir()?;
    let url = std::env::args().nth(1).unwrap_or_else(|| format!("file://{}", folder.path().display()));

    // One per process: it holds the cached pages and the newest known version. The prefix is for stores that hold other
    // things too; `glidepath catalog` reads the catalog at the URL itself, so this one has none.
    let (env, shared_state) = (LiveEnv::new(), Arc::new(SharedState::new("", 16 << 20)));
    let catalog = Chain::new(env, open(&url, &Options::default())?, shared_state);
    match catalog.create(Layout::Paged, true).await {
        Outcome::Committed(_) => println!("created a catalog in {url}"),
        Outcome::Conflict(_) => println!("there is a catalog in {url}"),
        Outcome::Refused(Denial { cause, .. }) | Outcome::Unknown(cause) => return Err(cause.to_string().into()),
    }

    // Writers of the same group share versions, and each gets its own answer. The group's leader commits for them in a
    // task of its own, which ends when the last handle to the group is dropped.
    let group = Group::default();
    tokio::spawn(Leader::new(env, catalog.clone(), &group, RetryPolicy::default())?.lead());
    let writer = || Committer::grouped(env, catalog.clone(), group.clone());

    let (sales, orders) = (Name::of_parts(["sales"])?, Name::of_parts(["sales", "orders"])?);
    create(&writer(), &sales, Entry::namespace()).await?;
    let table = Entry::table(Some("file:///lake/orders".to_owned()), TableState::new(1));
    create(&writer(), &orders, table).await?;

    // Two writers advance the table at the same time. One may get a conflict; it reads the table again, and both
    // succeed.
    let (one, other) = (writer(), writer());
    let (first, second) = tokio::join!(advance(&env, &one, &orders), advance(&env, &other, &orders));
    println!("orders is at version {}", first?.max(second?));

    // A page of names at a time; a snapshot never changes, whatever others commit.
    let now = catalog.load().await?;
    let mut after = None;
    loop {
        let page = catalog.all(&now, after.as_ref(), 100).await?;
        for (name, entry) in &page {
            println!("{:?} {name} {}", entry.kind, entry.location.as_deref().unwrap_or(""));
        }
        match page.last() {
            Some((last, _)) => after = Some(last.clone()),
            None => return Ok(()),
        }
    }
}

/// Creates an entry, unless it exists.
async fn create(writer: &Committer<LiveEnv, Chain>, name: &Name, entry: Entry) -> Result<(), Box<dyn Error>> {
    match writer.commit(vec![Action::Create { name: name.clone(), entry }]).await {
        Ok(at) => println!("created {name} in {}", at.version()),
        Err(CommitError::Refused(Refusal::Exists(_))) => println!("{name} exists already"),
        // Not done: Contention, Full, Failed. Perhaps done: Unknown.
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Moves a table to new metadata, and returns its new version.
async fn advance(env: &LiveEnv, writer: &Committer<LiveEnv, Chain>, table: &Name) -> Result<u64, Box<dyn Error>> {
    loop {
        let now = writer.catalog().load().await?;
        let entry = writer.catalog().entry(&now, table).await?.ok_or("the table was dropped")?;
        let state = entry.state.ok_or("the table has no version")?;
        // A real program would write the metadata file here, under a name of its own.
        let metadata = MetadataId(env.draw(Purpose::Names));
        let read_at = (PartitionId(0), state.partitions[0]);
        let advance = Advance { metadata, partitions: [read_at].into_iter().collect() };
        match writer.commit(vec![Action::Advance { name: table.clone(), advance }]).await {
            Ok(_) => return Ok(state.version.next().0),
            Err(CommitError::Refused(Refusal::Changed(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
