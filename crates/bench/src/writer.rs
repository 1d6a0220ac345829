//! What one writer does, live and simulated.

use std::collections::BTreeMap;

use glidepath_env::Env;
use glidepath_model::{Action, Entry, Instant, Name};
use glidepath_protocols::group::Committer;
use glidepath_protocols::manifest_chain::ManifestChain;

use crate::cell::Outcome;

/// Creates namespaces until the time is over.
pub(crate) async fn write<E: Env>(
    env: &E,
    committer: &Committer<E, ManifestChain<E>>,
    tag: &str,
    until: Instant,
) -> Outcome {
    let (mut outcome, mut number) = (Outcome::default(), 0_u64);
    while env.now() < until {
        let began = env.now();
        let name = Name::of_parts([format!("{tag}-{number:08}").as_str()]);
        let name = name.expect("letters, digits and a hyphen are a name");
        let mut entry = Entry::namespace();
        entry.properties = BTreeMap::from([("bench".to_owned(), "true".to_owned())]);
        match committer.commit(vec![Action::Create { name, entry }]).await {
            Ok(_) => outcome.latencies_ns.push(env.now().since(began).as_nanos()),
            Err(error) => outcome.count_error(error.to_string(), 1),
        }
        number += 1;
    }
    outcome
}
