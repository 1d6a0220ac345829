//! May what a command sends to a store cost money? Then it asks first.

use std::io::{IsTerminal, Write as _};

use glidepath_stores::with_small_scheme;

use crate::failure::Failure;

/// The price of a request in US dollars.
pub(crate) struct Prices {
    pub(crate) write_dollars: f64,
    pub(crate) read_dollars: f64,
    pub(crate) source: &'static str,
}

/// List prices, for an order of magnitude only.
const PRICES: &[(&str, Prices)] = &[
    ("s3:", Prices { write_dollars: 5e-6, read_dollars: 4e-7, source: "S3 Standard, us-east-1, assumed as of 2025" }),
    ("az:", Prices { write_dollars: 6.5e-6, read_dollars: 5e-7, source: "Azure Blob hot tier, assumed as of 2025" }),
    ("gs:", Prices { write_dollars: 5e-6, read_dollars: 4e-7, source: "GCS Standard, assumed as of 2025" }),
];

/// On a cloud, prints what will be sent and its price, in these words, and asks, unless `yes` answers.
pub(crate) fn agree(url: &str, yes: bool, words: impl FnOnce(&Prices) -> String) -> Result<(), Failure> {
    let url = with_small_scheme(url);
    let Some((_, prices)) = PRICES.iter().find(|(scheme, _)| url.starts_with(scheme)) else { return Ok(()) };
    eprintln!("{}", words(prices));
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Mistake(
            "these requests may cost money, and there is no terminal to ask on: give --yes to agree".to_owned(),
        ));
    }
    eprint!("Continue? [y/N] ");
    std::io::stderr().flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::Mistake("you did not agree; nothing was sent".to_owned())),
    }
}
