//! How is a cluster opened? With a driver that sends every request once.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use glidepath_env::{Cause, Table};
use glidepath_model::Span;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::{Consistency, SerialConsistency};

use super::outcome::cause;
use super::{Cassandra, Inner, statements};

/// How the store talks to a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a request may take before its outcome is given up as unknown (a write) or failed (a read). More than
    /// the servers' `cas_contention_timeout` and `write_request_timeout`, or they have no time to say what happened.
    pub request_timeout: Span,
    /// How long making a connection may take.
    pub connect_timeout: Span,
    /// How many copies of each row a keyspace that is made has, in each data centre; by default as many as there are
    /// nodes, up to 3. A keyspace that exists stays as it is. To be given where nodes may still be starting: the one
    /// that is asked may not know all others yet, and a row with two copies cannot be written without both.
    pub replication_factor: Option<NonZeroUsize>,
    /// The most bytes of one put, with the names of its row and columns. The module says which settings of the server
    /// it relies on.
    pub most_put_bytes: usize,
    /// Who asks, where the servers want to know.
    pub credentials: Option<Credentials>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            request_timeout: Span::from_secs(10),
            connect_timeout: Span::from_secs(5),
            replication_factor: None,
            most_put_bytes: 4 << 20,
            credentials: None,
        }
    }
}

/// A user of the servers.
#[derive(Clone)]
pub struct Credentials {
    /// The user's name.
    pub user: String,
    /// The user's password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Why a cluster could not be opened.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// Not the name of a keyspace.
    #[error("{0:?} is no name of a keyspace: letters, digits and _ are allowed, at most {longest}, first a letter or _", longest = Table::LONGEST)]
    Name(String),
    /// None of the hosts answered as a server of Cassandra.
    #[error("{hosts}: {cause}; see that one of them runs and that its native_transport_port is the port given")]
    Connect {
        /// Those that were asked.
        hosts: String,
        /// Why.
        cause: Cause,
    },
    /// The keyspace is not there, and could not be made.
    #[error("{0}")]
    Keyspace(Cause),
}

impl Cassandra {
    /// Connects to the cluster to which these hosts ("address:port") belong, and makes the keyspace if it does not
    /// exist. The other hosts of the cluster are found by asking these. Needs a runtime of tokio, as all operations do.
    ///
    /// # Errors
    /// Where no host answers, or the keyspace cannot be made.
    pub async fn open(hosts: &[&str], keyspace: &str, options: &Options) -> Result<Self, OpenError> {
        if Table::new(keyspace).is_none() {
            return Err(OpenError::Name(keyspace.to_owned()));
        }
        let connect = SessionBuilder::new()
            .known_nodes(hosts)
            .connection_timeout(duration(options.connect_timeout))
            .keyspaces_to_fetch([keyspace])
            .default_execution_profile_handle(profile(options).into_handle());
        let connect = match &options.credentials {
            Some(Credentials { user, password }) => connect.user(user, password),
            None => connect,
        };
        let session = connect
            .build()
            .await
            .map_err(|error| OpenError::Connect { hosts: hosts.join(", "), cause: cause("connecting", &error) })?;
        make_keyspace(&session, keyspace, options).await?;
        let prepared = session.prepare(statements::TABLE_EXISTS).await;
        let table_exists = prepared.map_err(|error| OpenError::Keyspace(cause("asking for the tables", &error)))?;
        Ok(Self(Arc::new(Inner {
            session,
            keyspace: keyspace.to_owned(),
            most_put_bytes: options.most_put_bytes,
            table_exists,
            statements: Mutex::default(),
        })))
    }
}

async fn make_keyspace(session: &Session, keyspace: &str, options: &Options) -> Result<(), OpenError> {
    let cluster = session.get_cluster_state();
    if cluster.get_keyspace(keyspace).is_some() {
        // Who may use it need not be allowed to make one.
        return Ok(());
    }
    let nodes = cluster.get_nodes_info().len();
    let copies = options.replication_factor.map_or(nodes.clamp(1, 3), NonZeroUsize::get);
    let made = session.query_unpaged(statements::create_keyspace(keyspace, copies), ()).await;
    let what = format!("making the keyspace {keyspace} with {copies} copies of each row");
    made.map(drop).map_err(|error| OpenError::Keyspace(cause(&what, &error)))
}

/// How requests are sent: each once. A repeat of a conditional write would meet what the first attempt left.
fn profile(options: &Options) -> ExecutionProfile {
    // The replicas of a row in one order: requests of one row then meet in one coordinator, where they queue, and not
    // in the rounds of Paxos of several.
    let nodes = DefaultPolicy::builder().enable_shuffling_replicas(false).build();
    ExecutionProfile::builder()
        .consistency(Consistency::Quorum)
        .serial_consistency(Some(SerialConsistency::Serial))
        .request_timeout(Some(duration(options.request_timeout)))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .speculative_execution_policy(None)
        .load_balancing_policy(nodes)
        .build()
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}
