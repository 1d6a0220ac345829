//! The full configuration of one simulated point: a user's settings over a preset, without defaults.

use std::ops::Range;

use glidepath_model::{Instant, Span};
use glidepath_protocols::registry::Protocol;
use glidepath_sim::{EffectPoint, Profile};
use glidepath_workload::{
    Appends, Arrivals, Commit, Distribution, Kind, ManifestList, Retry, SpecError, TableMetadata, Tables, Transaction,
    Workload,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::load::check_load;
use crate::server::tables::Sizes;

/// Increased whenever the same configuration and seed give other results than before, so that results of different
/// models are not mixed.
pub const MODEL_VERSION: u32 = 17;

/// Everything that the result of a run depends on, besides the seed and the profile that `provider` names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Virtual time from the start: transactions that arrive later are not counted.
    pub duration: Span,
    /// After `duration` a run continues at the same load until all transactions of the window have ended, for at most
    /// this time. With 0, as in the published runs, transactions that have not ended after `duration` are left out.
    pub run_on: Span,
    /// The profile of the store of table metadata, and of the catalog unless `catalog.latency` is given: a name, or a
    /// path to a TOML file.
    pub provider: String,
    /// The catalog.
    pub catalog: CatalogConfig,
    /// When transactions arrive.
    pub arrivals: Arrivals,
    /// What a transaction does.
    pub transaction: Transaction,
    /// The tables they write.
    pub tables: Tables,
    /// The requests of a commit.
    pub commit: Commit,
    /// What happens after a failed attempt.
    pub retry: Retry,
}

/// How the catalog is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogConfig {
    /// The commit protocol.
    pub protocol: Protocol,
    /// If given, the catalog is not in the provider's store, but answers every request in this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
    /// If given, the catalog is in another store than the tables, with this profile: a name, or a path to a TOML file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// If given, one server has the catalog: it commits what waits as one group, and answers reads with the newest
    /// version that it knows. The value is the round trip between a client and this server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Span>,
    /// How many such servers there are: 1 if not given. Each client talks to one of them, and each reads the newest
    /// version from the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servers: Option<u32>,
    /// Which of several servers a transaction is sent to.
    #[serde(default, skip_serializing_if = "Balance::is_usual")]
    pub balance: Balance,
    /// When, within its round trip, a request to the catalog takes effect.
    pub effect: EffectPoint,
}

/// A checked configuration, with the profile it names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// What to simulate.
    pub config: Config,
    /// The profile of the store of the tables, and of the catalog unless it has one of its own.
    pub profile: Profile,
    /// The profile of the catalog's own store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_profile: Option<Profile>,
}

/// The profiles that a configuration names.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles {
    /// That of `provider`.
    pub tables: Profile,
    /// That of `catalog.store`.
    pub catalog: Option<Profile>,
}

impl From<Profile> for Profiles {
    fn from(tables: Profile) -> Self {
        Self { tables, catalog: None }
    }
}

/// Which of several servers a transaction is sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// One after the other.
    #[default]
    InTurn,
    /// That of its first table: a load balancer that hashes the path of the request does so.
    ByTable,
}

impl Balance {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl CatalogConfig {
    /// The number of servers in front of it, if there are any.
    #[must_use]
    pub fn servers(&self) -> u32 {
        self.servers.unwrap_or(1)
    }
}

impl Config {
    /// The part for the workload.
    #[must_use]
    pub fn workload(&self) -> Workload {
        Workload {
            arrivals: self.arrivals,
            transaction: self.transaction,
            tables: self.tables,
            commit: self.commit.clone(),
            retry: self.retry,
        }
    }
}

impl Point {
    /// Checks a configuration against the stores it is to run on.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn new(config: Config, profiles: impl Into<Profiles>) -> Result<Self, SpecError> {
        let Profiles { tables: profile, catalog: catalog_profile } = profiles.into();
        check_catalog(&config, catalog_profile.is_some())?;
        check_appends(&config)?;
        if profile.catalogs_only {
            let found = format!("{:?}, which keeps no files of tables", config.provider);
            let allowed = format!("an object store; {} can be catalog.store", config.provider);
            return Err(SpecError { field: "provider", found, allowed });
        }
        let of_catalog = catalog_profile.as_ref().unwrap_or(&profile);
        config.workload().check(profile.capabilities())?;
        let duration = config.duration;
        for (field, span, least) in [("duration", duration, 1), ("run_on", config.run_on, 0)] {
            if !(Span::from_secs(least)..=Span::from_secs(366 * 86_400)).contains(&span) {
                let allowed = format!("{least}s to 8784h");
                return Err(SpecError { field, found: span.to_string(), allowed });
            }
        }
        let protocol = config.catalog.protocol;
        if !protocol.features().holds_metadata && config.tables.metadata == TableMetadata::Inlined {
            let found = format!("\"inlined\" with {}, which keeps no table metadata in the catalog", protocol.name());
            let others = Protocol::which(|features| features.holds_metadata);
            let allowed = format!("\"separate\", or catalog.protocol = \"{others}\"");
            return Err(SpecError { field: "tables.metadata", found, allowed });
        }
        if protocol.features().appends && config.catalog.latency.is_none() && !of_catalog.capabilities().append {
            let store = config.catalog.store.as_ref().unwrap_or(&config.provider);
            let found = format!("{} on {store}, which cannot append", protocol.name());
            let others = Protocol::which(|features| !features.appends);
            let allowed = format!("{others} there; {} on a store that can append", protocol.name());
            return Err(SpecError { field: "catalog.protocol", found, allowed });
        }
        check_load(&config)?;
        Ok(Self { config, profile, catalog_profile })
    }

    /// The same stores with another configuration.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(&self, config: Config) -> Result<Self, SpecError> {
        self.with_tables_on(config, self.profile.clone())
    }

    /// The same with another store for the tables, and for the catalog unless it has one of its own.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_tables_on(&self, config: Config, tables: Profile) -> Result<Self, SpecError> {
        let catalog = self.catalog_profile.clone().filter(|_| config.catalog.store.is_some());
        Self::new(config, Profiles { tables, catalog })
    }

    /// The profile of the store that has the catalog's objects; `None` if the catalog answers in a given time.
    #[must_use]
    pub fn store_of_catalog(&self) -> Option<&Profile> {
        let own = self.catalog_profile.as_ref().unwrap_or(&self.profile);
        self.config.catalog.latency.is_none().then_some(own)
    }

    /// Whether catalog and tables are in one store.
    #[must_use]
    pub fn catalog_is_an_object(&self) -> bool {
        self.config.catalog.latency.is_none() && self.config.catalog.store.is_none()
    }

    /// Whether only validated overwrites decide on success. Without any, all transactions do.
    #[must_use]
    pub fn overwrites_decide(&self) -> bool {
        self.config.transaction.fast_append < 1.0
    }

    /// The time that those work which decide on success.
    #[must_use]
    pub fn deciding_runtime(&self) -> Distribution {
        let overwrite = Kind::ValidatedOverwrite;
        self.config.transaction.runtime_of(if self.overwrites_decide() { overwrite } else { Kind::FastAppend })
    }

    /// The bytes that each table adds to the catalog's object beyond its entry.
    pub(crate) fn filler_per_table(&self) -> glidepath_model::ByteSize {
        match self.config.tables.metadata {
            TableMetadata::Separate => glidepath_model::ByteSize::default(),
            TableMetadata::Inlined => self.config.tables.metadata_size,
        }
    }

    /// The sizes of what the server writes, if it keeps the tables too.
    pub(crate) fn served_tables(&self) -> Option<Sizes> {
        let tables = &self.config.tables;
        (tables.appends == Appends::Rebased).then_some(Sizes {
            metadata: tables.metadata_size,
            list: tables.manifest_list_size,
            manifest: tables.manifest_file_size,
        })
    }

    /// Whether a commit appends to the manifest list, in place of writing another.
    #[must_use]
    pub fn appends_to_lists(&self) -> bool {
        self.config.tables.manifest_list == ManifestList::Append
    }

    /// Identifies this point with this seed: equal exactly if configuration, profile, seed and model version are equal.
    #[must_use]
    pub fn key(&self, seed: u64) -> String {
        let content = serde_json::to_vec(&(MODEL_VERSION, seed, self));
        // A structure of strings and numbers always has a JSON form.
        let content = content.unwrap_or_else(|error| panic!("a point has no JSON form: {error}"));
        Sha256::digest(content).iter().take(12).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Whether there is a server that can put appends on top of each other.
fn check_appends(config: &Config) -> Result<(), SpecError> {
    let Config { catalog, tables, .. } = config;
    let usual = tables.metadata == TableMetadata::Separate && tables.manifest_list == ManifestList::Rewrite;
    if tables.appends == Appends::Retried || catalog.server.is_some() && usual {
        return Ok(());
    }
    let allowed =
        "\"retried\"; or a catalog.server, tables.metadata = \"separate\" and tables.manifest_list = \"rewrite\"";
    Err(SpecError { field: "tables.appends", found: "\"rebased\"".to_owned(), allowed: allowed.to_owned() })
}

/// The most servers in front of a catalog.
const MOST_SERVERS: u32 = 64;

/// Whether the catalog is in one place.
fn check_catalog(config: &Config, has_profile: bool) -> Result<(), SpecError> {
    let CatalogConfig { latency, store, server, servers, balance, .. } = &config.catalog;
    let wrong = |field, found: String, allowed: &str| Err(SpecError { field, found, allowed: allowed.to_owned() });
    match (store, latency) {
        (Some(store), Some(latency)) => wrong(
            "catalog.store",
            format!("{store:?}, and catalog.latency = \"{latency}\""),
            "one of the two: a store with a profile, or a time for every request",
        ),
        (Some(store), None) if !has_profile => {
            wrong("catalog.store", format!("{store:?} without its profile"), "the name of a profile, or a file")
        }
        _ if server.is_some_and(|way| way > Span::from_secs(3600)) => {
            wrong("catalog.server", server.unwrap_or_default().to_string(), "0s to 1h")
        }
        _ if servers.is_some_and(|count| !(1..=MOST_SERVERS).contains(&count)) => {
            wrong("catalog.servers", config.catalog.servers().to_string(), &format!("1 to {MOST_SERVERS}"))
        }
        _ if servers.is_some() && server.is_none() => {
            let allowed = "only with catalog.server, the round trip between a client and its server";
            wrong("catalog.servers", config.catalog.servers().to_string(), allowed)
        }
        _ if !balance.is_usual() && servers.is_none() => {
            wrong("catalog.balance", "\"by-table\"".to_owned(), "\"in-turn\"; \"by-table\" with catalog.servers")
        }
        _ => Ok(()),
    }
}

/// The window of a run of this length, whose transactions are counted: its middle half.
#[must_use]
pub fn window(duration: Span) -> Range<Instant> {
    part(duration, 0.25..0.75)
}

/// The part of a run of this length between two shares of it.
#[must_use]
pub fn part(duration: Span, shares: Range<f64>) -> Range<Instant> {
    let at = |share: f64| Instant::ZERO + Span::from_secs_f64(duration.as_secs_f64() * share);
    at(shares.start)..at(shares.end)
}

/// Lengths of a run that are allowed with bursts; `None` if this one is. The window (the middle half) must hold a whole
/// number of bursts, two or more; otherwise the counted part of a burst would be random.
#[must_use]
pub fn burst_misfit(config: &Config) -> Option<String> {
    let burst = config.arrivals.burst?;
    let count = burst.count_in(config.duration.half());
    let whole = (count - count.round()).abs() < 1e-6 && count.round() >= 2.0;
    let twice = Span::from_nanos(burst.every.as_nanos().saturating_mul(2));
    let least = Span::from_nanos(burst.every.as_nanos().saturating_mul(4));
    (!whole)
        .then(|| format!("a multiple of {twice}, from {least} on, so that the window holds whole bursts, and several"))
}
