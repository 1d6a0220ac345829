//! Does the client have the rights that its request needs?

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use glidepath_access::{Access, Denied, Grants, Identity, Right, Verdict, bearer, decide, is_reserved, right_of};
use glidepath_service::{Kind, Listing, Namespace, Page, ServiceError};

use super::refusal::{Refusal, Speech};
use super::routes::{Check, Found, checks, find};
use crate::lance::answer::no_method_words;
use crate::state::App;

/// Who sent a request; handlers find it among the extensions of the request.
#[derive(Clone, Debug)]
pub(crate) struct Asker(pub(crate) Arc<Identity>);

/// Who sent a request, by its token.
pub(crate) async fn authenticate(access: &Access, headers: &HeaderMap) -> Result<Asker, Refusal> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let token = match (given.next(), given.next()) {
        _ if access.is_open() => None,
        (None, _) => None,
        (Some(one), None) => Some(bearer(one.to_str().unwrap_or_default()).map_err(Refusal::Denied)?),
        (Some(_), Some(_)) => {
            let why = "the request has two Authorization headers; send one".into();
            return Err(Refusal::Denied(Denied::Refused { why }));
        }
    };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let identity = access.authenticate(token, now).await.map_err(Refusal::Denied)?;
    Ok(Asker(Arc::new(identity)))
}

/// Refuses a request whose client may not send it. `route` is the template of its path.
pub(crate) async fn authorize(
    app: &App,
    asker: &Asker,
    route: &str,
    request: &mut Parts,
    body: &Bytes,
) -> Result<(), Refusal> {
    if asker.0.is_unchecked() {
        return Ok(());
    }
    let rule = match find(&request.method, route) {
        Found::Rule(rule) => rule,
        Found::Unsupported => return Ok(()),
        Found::OtherMethods => {
            let words = match Speech::of(route) {
                Speech::Lance => no_method_words(&request.method, request.uri.path()),
                _ => format!("{route} has no method {}; GET /v1/config lists what there is", request.method),
            };
            return Err(Refusal::Other(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowedException", 0, words));
        }
        Found::Unknown => {
            let words = "this route has no rule of access in this version, so nobody may use it".to_owned();
            return Err(Refusal::Forbidden(words));
        }
    };
    let mut known: BTreeMap<Vec<String>, Option<Right>> = BTreeMap::new();
    for Check { on, needs, hidden } in checks(rule, request, body).await? {
        let has = match known.get(&on) {
            // What is known from a lesser need may be too little: only the file was asked then.
            Some(has) if *has >= Some(needs) => *has,
            _ => {
                let has = right_on(app, asker, &on, needs).await?;
                known.insert(on.clone(), has);
                has
            }
        };
        match decide(has, needs) {
            Verdict::Allowed => {}
            Verdict::Hidden if !on.is_empty() => return Err(hidden.into()),
            Verdict::Hidden | Verdict::Forbidden => {
                let place =
                    if on.is_empty() { "the catalog".to_owned() } else { format!("namespace {}", on.join(".")) };
                let name = asker.0.name();
                let words = format!("{name} needs the right {needs} on {place}; ask one of its administrators");
                return Err(Refusal::Forbidden(words));
            }
        }
    }
    Ok(())
}

/// The right on a namespace; if the file of grants already gives what is needed, perhaps less than all of it.
pub(crate) async fn right_on(
    app: &App,
    asker: &Asker,
    on: &[String],
    needs: Right,
) -> Result<Option<Right>, ServiceError> {
    let of_file = app.gate.access.grants();
    let by_file = of_file.right(&asker.0, on);
    if on.is_empty() || by_file >= Some(needs) {
        return Ok(by_file);
    }
    let path = on.to_vec();
    let ancestry = match app.run(move |service| async move { service.ancestry(&path).await }).await {
        Ok(ancestry) => ancestry,
        // A name that cannot exist has no grants.
        Err(error) if error.kind == Kind::Invalid => Vec::new(),
        Err(error) => return Err(error),
    };
    let sets: Vec<Grants> =
        ancestry.iter().map(|namespace| of_properties(&namespace.parts, &namespace.properties)).collect();
    Ok(right_of(&asker.0, on, sets.iter().chain([of_file.as_ref()])))
}

fn of_properties(path: &[String], properties: &BTreeMap<String, String>) -> Grants {
    Grants::of_properties(path, properties.iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// A namespace as the client may see it: only its administrators see who has which right.
pub(crate) async fn told_properties(
    app: &App,
    asker: &Asker,
    mut namespace: Namespace,
) -> Result<Namespace, ServiceError> {
    let has_grants = namespace.properties.keys().any(|key| is_reserved(key));
    if has_grants && right_on(app, asker, &namespace.parts, Right::Admin).await? < Some(Right::Admin) {
        namespace.properties.retain(|key, _| !is_reserved(key));
    }
    Ok(namespace)
}

/// Whether the client can read a namespace of the root with these properties.
pub(crate) fn may_read(
    asker: &Asker,
    of_file: &Grants,
    path: &[String],
    properties: &BTreeMap<String, String>,
) -> bool {
    right_of(&asker.0, path, [of_file, &of_properties(path, properties)]) >= Some(Right::Read)
}

/// The namespaces in one that the client can read. The caller has checked that it can read `parent`, or `parent` is the
/// root.
pub(crate) async fn readable_namespaces(
    app: &App,
    asker: Asker,
    parent: Vec<String>,
    page: Page,
) -> Result<Listing<Vec<String>>, ServiceError> {
    let of_file = app.gate.access.grants();
    // Who can read a namespace can read what is below.
    let all = !parent.is_empty() || of_file.allows(&asker.0, &parent, Right::Read);
    app.run(move |service| async move {
        let wanted = |path: &[String], properties: &BTreeMap<String, String>| {
            all || may_read(&asker, &of_file, path, properties)
        };
        service.list_namespaces_where(&parent, &page, wanted).await
    })
    .await
}
