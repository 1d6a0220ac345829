//! The contract, on a real server.

mod cloud_support;

use cloud_support::{Deviation, conforms, fresh, server};

const DEVIATIONS: &[Deviation] =
    &[("dots-and-slashes", "the client library changes such keys, so the store refuses them")];

#[tokio::test]
async fn keeps_the_contract() {
    let Some(url) = server("GLIDEPATH_GCS") else { return };
    conforms(&fresh(url, "suite"), DEVIATIONS).await;
}
