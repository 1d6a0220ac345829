//! What the run is asked for.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
kill PROGRAM STORE WAREHOUSE [OPTION...]
    PROGRAM            glidepath, built with the feature serve
    STORE, WAREHOUSE   URLs, as `glidepath serve STORE --warehouse WAREHOUSE` takes them; the catalog should be new
    --commits N        end after this many acknowledged commits [2000]
    --clients N        concurrent clients, at least 8 [24]
    --servers N        servers [3]
    --protocol NAME    of the catalog that is created [manifest-chain]
    --kill-every MS    mean time between kills [1000]
    --logs FOLDER      where the servers' logs go [.]
    --seed N           of what the clients do and when servers are killed [1]";

#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) program: String,
    pub(crate) store: String,
    pub(crate) warehouse: String,
    pub(crate) commits: u64,
    pub(crate) clients: u64,
    pub(crate) servers: u64,
    pub(crate) protocol: String,
    pub(crate) kill_every_ms: u64,
    pub(crate) logs: PathBuf,
    pub(crate) seed: u64,
}

impl Options {
    /// `None` if there are no arguments.
    pub(crate) fn of(mut arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let Some(program) = arguments.next() else { return Ok(None) };
        let mut next = |what: &str| arguments.next().ok_or(format!("{what} is missing\n{USAGE}"));
        let mut options = Self {
            program,
            store: next("STORE")?,
            warehouse: next("WAREHOUSE")?,
            commits: 2000,
            clients: 24,
            servers: 3,
            protocol: "manifest-chain".to_owned(),
            kill_every_ms: 1000,
            logs: PathBuf::from("."),
            seed: 1,
        };
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or(format!("{option} needs a value\n{USAGE}"))?;
            let number = || match value.parse::<u64>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("{option}: found {value:?}, expected a number above 0")),
            };
            match option.as_str() {
                "--commits" => options.commits = number()?,
                "--clients" => options.clients = number()?.max(8),
                "--servers" => options.servers = number()?,
                "--kill-every" => options.kill_every_ms = number()?.max(4),
                "--seed" => options.seed = number()?,
                "--protocol" => options.protocol = value,
                "--logs" => options.logs = PathBuf::from(value),
                other => return Err(format!("there is no option {other}\n{USAGE}")),
            }
        }
        Ok(Some(options))
    }
}
