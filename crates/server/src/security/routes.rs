//! Which rights does each route need? One list; what is not in it is refused.

use std::collections::BTreeMap;

use axum::RequestPartsExt;
use axum::body::Body;
use axum::extract::{FromRequest, Path, Query, Request};
use axum::http::Method;
use axum::http::request::Parts;
use bytes::Bytes;
use glidepath_access::{Action, Grant, Right, is_reserved};
use glidepath_service::{Identifier, Kind, ServiceError};
use serde::Deserialize;

use crate::iceberg::request::{Rename, WireName, or_default, parts};
use crate::lance::request::Call;
use crate::objects::{object_or_none, objects, plain};

/// Where a request names what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is about nothing: a valid token is enough.
    Nothing,
    /// The namespace whose namespaces are listed, in the query. The root can be listed by everybody, and its list has
    /// only what the client can read.
    Parent,
    /// The namespace in the path.
    Namespace,
    /// The namespace in the path, and properties in the body.
    Properties,
    /// The table in the path.
    Table,
    /// The view in the path.
    View,
    /// A namespace to create, with properties, in the body.
    NewNamespace,
    /// Two names in the body. `true`: of views.
    Rename(bool),
    /// Several tables in the body.
    Tables,
    /// Lance: the id, which is of a namespace whose namespaces are listed. The root as with `Parent`.
    LanceParent,
    /// Lance: the id, which is of a namespace.
    LanceNamespace,
    /// Lance: the id, which is of a namespace to create.
    LanceNew,
    /// Lance: the id, which is of a table.
    LanceTable,
    /// Lance: the id, and the new name in the body.
    LanceRename,
}

/// What a route needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    pub(crate) method: &'static str,
    pub(crate) route: &'static str,
    action: Action,
    place: Place,
}

const fn rule(method: &'static str, route: &'static str, action: Action, place: Place) -> Rule {
    Rule { method, route, action, place }
}

const TABLE: &str = "/v1/namespaces/{namespace}/tables/{table}";
const VIEW: &str = "/v1/namespaces/{namespace}/views/{view}";

/// All routes. `HEAD` needs what `GET` needs.
pub(crate) const RULES: &[Rule] = &[
    rule("GET", "/v1/config", Action::Load, Place::Nothing),
    rule("GET", "/v1/namespaces", Action::List, Place::Parent),
    rule("POST", "/v1/namespaces", Action::CreateNamespace, Place::NewNamespace),
    rule("GET", "/v1/namespaces/{namespace}", Action::Load, Place::Namespace),
    rule("DELETE", "/v1/namespaces/{namespace}", Action::DropNamespace, Place::Namespace),
    rule("POST", "/v1/namespaces/{namespace}/properties", Action::SetProperties, Place::Properties),
    rule("GET", "/v1/namespaces/{namespace}/tables", Action::List, Place::Namespace),
    rule("POST", "/v1/namespaces/{namespace}/tables", Action::CreateTable, Place::Namespace),
    rule("GET", TABLE, Action::Load, Place::Table),
    rule("POST", TABLE, Action::CommitTable, Place::Table),
    rule("DELETE", TABLE, Action::DropTable, Place::Table),
    rule("POST", "/v1/namespaces/{namespace}/tables/{table}/metrics", Action::Load, Place::Table),
    rule("GET", "/v1/namespaces/{namespace}/tables/{table}/credentials", Action::Load, Place::Table),
    rule("POST", "/v1/namespaces/{namespace}/register", Action::CreateTable, Place::Namespace),
    rule("POST", "/v1/tables/rename", Action::RenameTable, Place::Rename(false)),
    rule("POST", "/v1/transactions/commit", Action::CommitTable, Place::Tables),
    rule("GET", "/v1/namespaces/{namespace}/views", Action::List, Place::Namespace),
    rule("POST", "/v1/namespaces/{namespace}/views", Action::CreateTable, Place::Namespace),
    rule("GET", VIEW, Action::Load, Place::View),
    rule("POST", VIEW, Action::CommitTable, Place::View),
    rule("DELETE", VIEW, Action::DropTable, Place::View),
    rule("POST", "/v1/namespaces/{namespace}/register-view", Action::CreateTable, Place::Namespace),
    rule("POST", "/v1/views/rename", Action::RenameTable, Place::Rename(true)),
    rule("GET", "/", Action::List, Place::Nothing),
    rule("GET", "/page.css", Action::List, Place::Nothing),
    rule("GET", "/page.js", Action::List, Place::Nothing),
    rule("GET", "/namespaces/{namespace}", Action::Load, Place::Namespace),
    rule("GET", "/namespaces/{namespace}/tables/{table}", Action::Load, Place::Table),
    rule("GET", "/namespaces/{namespace}/views/{view}", Action::Load, Place::View),
    rule("GET", "/tables/{table}", Action::Load, Place::Table),
    rule("GET", "/views/{view}", Action::Load, Place::View),
    rule("POST", "/v1/namespace/{id}/create", Action::CreateNamespace, Place::LanceNew),
    rule("GET", "/v1/namespace/{id}/list", Action::List, Place::LanceParent),
    rule("POST", "/v1/namespace/{id}/describe", Action::Load, Place::LanceNamespace),
    rule("POST", "/v1/namespace/{id}/drop", Action::DropNamespace, Place::LanceNamespace),
    rule("POST", "/v1/namespace/{id}/exists", Action::Load, Place::LanceNamespace),
    rule("GET", "/v1/namespace/{id}/table/list", Action::List, Place::LanceNamespace),
    rule("POST", "/v1/table/{id}/declare", Action::CreateTable, Place::LanceTable),
    rule("POST", "/v1/table/{id}/describe", Action::Load, Place::LanceTable),
    rule("POST", "/v1/table/{id}/exists", Action::Load, Place::LanceTable),
    rule("POST", "/v1/table/{id}/drop", Action::DropTable, Place::LanceTable),
    rule("POST", "/v1/table/{id}/deregister", Action::DropTable, Place::LanceTable),
    rule("POST", "/v1/table/{id}/register", Action::CreateTable, Place::LanceTable),
    rule("POST", "/v1/table/{id}/rename", Action::RenameTable, Place::LanceRename),
    rule("POST", "/v1/table/{id}/version/list", Action::Load, Place::LanceTable),
    rule("POST", "/v1/table/{id}/version/create", Action::CommitTable, Place::LanceTable),
    rule("POST", "/v1/table/{id}/version/describe", Action::Load, Place::LanceTable),
    rule("POST", "/v1/table/{id}/version/delete", Action::CommitTable, Place::LanceTable),
];

/// The routes of Lance's specification that are answered "not supported", whatever the request says.
pub(crate) const UNSUPPORTED_KINDS: &[&str] = &["namespace", "table", "transaction", "materialized_view"];

/// What follows the kind in such a route.
pub(crate) const UNSUPPORTED_RESTS: &[&str] =
    &["", "/{id}", "/{id}/{call}", "/{id}/{call}/{step}", "/{id}/{call}/{step}/{last}"];

fn is_unsupported(route: &str) -> bool {
    let rest_of = |kind: &&str| route.strip_prefix("/v1/").and_then(|route| route.strip_prefix(*kind));
    UNSUPPORTED_KINDS.iter().filter_map(rest_of).any(|rest| UNSUPPORTED_RESTS.contains(&rest))
}

/// What is known of a route and a method.
pub(crate) enum Found {
    Rule(&'static Rule),
    /// The route does nothing.
    Unsupported,
    /// The route has other methods only.
    OtherMethods,
    /// The route is not in the list.
    Unknown,
}

/// The rule of a route.
pub(crate) fn find(method: &Method, route: &str) -> Found {
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    let of_route = || RULES.iter().filter(|rule| rule.route == route);
    match of_route().find(|rule| rule.method == method) {
        Some(rule) => Found::Rule(rule),
        None if of_route().next().is_some() => Found::OtherMethods,
        None if is_unsupported(route) => Found::Unsupported,
        None => Found::Unknown,
    }
}

/// A right that a request needs on a namespace.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) on: Vec<String>,
    pub(crate) needs: Right,
    /// The answer if the client may not know of the namespace: the same as if it did not exist.
    pub(crate) hidden: ServiceError,
}

fn missing(kind: Kind, what: &str, parts: &[String]) -> ServiceError {
    ServiceError { kind, message: format!("{what} does not exist: {}", parts.join(".")) }
}

fn on_namespace(on: Vec<String>, needs: Right) -> Check {
    let hidden = missing(Kind::NoNamespace, "Namespace", &on);
    Check { on, needs, hidden }
}

fn on_object(name: Identifier, needs: Right, is_view: bool) -> Check {
    let (kind, what) = if is_view { (Kind::NoView, "View") } else { (Kind::NoTable, "Table") };
    let hidden = ServiceError { kind, message: format!("{what} does not exist: {}", name.dotted()) };
    Check { on: name.namespace, needs, hidden }
}

#[derive(Deserialize)]
struct NewNamespace {
    namespace: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    properties: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Change {
    #[serde(default, deserialize_with = "or_default")]
    updates: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    removals: Vec<String>,
}

#[derive(Deserialize)]
struct Tables {
    #[serde(rename = "table-changes", deserialize_with = "objects")]
    changes: Vec<OfTable>,
}

#[derive(Deserialize)]
struct OfTable {
    #[serde(default, deserialize_with = "object_or_none")]
    identifier: Option<WireName>,
}

#[derive(Deserialize)]
struct ParentAsked {
    parent: Option<String>,
}

/// The rights that a request needs. It reads paths and bodies as the handlers do.
pub(crate) async fn checks(rule: &Rule, request: &mut Parts, body: &Bytes) -> Result<Vec<Check>, ServiceError> {
    let needs = rule.action.right();
    match rule.place {
        Place::Nothing => Ok(Vec::new()),
        Place::Parent => {
            let asked = request.extract::<Query<ParentAsked>>().await;
            let Query(asked) =
                asked.map_err(|error| ServiceError::invalid(format!("the query of the request is wrong: {error}")))?;
            let parent = parts(asked.parent.as_deref().unwrap_or_default());
            Ok(if parent.is_empty() { Vec::new() } else { vec![on_namespace(parent, needs)] })
        }
        Place::Namespace => Ok(vec![on_namespace(named(request).await?.namespace, needs)]),
        Place::Properties => {
            let namespace = named(request).await?.namespace;
            let Change { updates, removals } = plain(body)?;
            let granting = granting(&namespace, updates.iter(), removals.iter())?;
            Ok([Some(on_namespace(namespace, needs)), granting].into_iter().flatten().collect())
        }
        Place::Table => Ok(vec![on_object(named(request).await?, needs, false)]),
        Place::View => Ok(vec![on_object(named(request).await?, needs, true)]),
        Place::NewNamespace => {
            let NewNamespace { namespace, properties } = plain(body)?;
            let granting = granting(&namespace, properties.iter(), [].iter())?;
            let mut above = namespace;
            above.pop();
            Ok([Some(on_namespace(above, needs)), granting].into_iter().flatten().collect())
        }
        Place::Rename(is_view) => {
            let Rename { source, destination } = plain(body)?;
            Ok(vec![on_object(source.into(), needs, is_view), on_namespace(destination.namespace, needs)])
        }
        Place::Tables => {
            let Tables { changes } = plain(body)?;
            let named = changes.into_iter().filter_map(|change| change.identifier);
            // The handler refuses the whole request if one has no identifier.
            Ok(named.map(|name| on_object(name.into(), needs, false)).collect())
        }
        place => of_lance(place, needs, request, body).await,
    }
}

/// What a body of Lance says besides the id.
#[derive(Deserialize)]
struct LanceBody {
    properties: Option<BTreeMap<String, String>>,
    new_namespace_id: Option<Vec<String>>,
}

async fn of_lance(place: Place, needs: Right, request: &Parts, body: &Bytes) -> Result<Vec<Check>, ServiceError> {
    let same = Request::from_parts(request.clone(), Body::from(body.clone()));
    let call = Call::<LanceBody>::from_request(same, &()).await;
    let Call { mut id, value: LanceBody { properties, new_namespace_id } } =
        call.map_err(|fault| fault.into_error())?;
    match place {
        Place::LanceParent if id.is_empty() => Ok(Vec::new()),
        Place::LanceNew => {
            let granting = granting(&id, properties.iter().flatten(), [].iter())?;
            id.pop();
            Ok([Some(on_namespace(id, needs)), granting].into_iter().flatten().collect())
        }
        Place::LanceTable | Place::LanceRename => {
            let name = id.pop().unwrap_or_default();
            let to = new_namespace_id.unwrap_or_else(|| id.clone());
            let mut checks = vec![on_object(Identifier { namespace: id, name }, needs, false)];
            if place == Place::LanceRename {
                checks.push(on_namespace(to, needs));
            }
            Ok(checks)
        }
        _ => Ok(vec![on_namespace(id, needs)]),
    }
}

/// The check of a change of grants, if there is one. Malformed grants are refused.
fn granting<'a>(
    namespace: &[String],
    set: impl Iterator<Item = (&'a String, &'a String)>,
    removed: impl Iterator<Item = &'a String>,
) -> Result<Option<Check>, ServiceError> {
    let mut changes = false;
    for (key, value) in set {
        let grant = Grant::of_property(namespace, key, value);
        changes |= grant.map_err(|error| ServiceError::invalid(error.to_string()))?.is_some();
    }
    changes |= removed.into_iter().any(|key| is_reserved(key));
    Ok(changes.then(|| on_namespace(namespace.to_vec(), Action::ChangeGrants.right())))
}

/// What the path names.
async fn named(request: &mut Parts) -> Result<Identifier, ServiceError> {
    let found = request.extract::<Path<BTreeMap<String, String>>>().await;
    let Path(mut found) =
        found.map_err(|error| ServiceError::invalid(format!("the path of the request is wrong: {error}")))?;
    let namespace = parts(&found.remove("namespace").unwrap_or_default());
    let name = found.remove("table").or_else(|| found.remove("view")).unwrap_or_default();
    Ok(Identifier { namespace, name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iceberg::ENDPOINTS;

    #[test]
    fn each_endpoint_has_a_rule_and_each_rule_an_endpoint() {
        for endpoint in ENDPOINTS {
            let (method, route) = endpoint.split_once(' ').unwrap();
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let route = route.replace("/{prefix}", "");
            assert!(matches!(find(&method, &route), Found::Rule(_)), "{endpoint}");
        }
        let of_iceberg =
            |rule: &&Rule| rule.route.starts_with("/v1/") && !rule.route.contains("{id}") && rule.route != "/v1/config";
        for rule in RULES.iter().filter(of_iceberg) {
            let endpoint = format!("{} {}", rule.method, rule.route.replace("/v1/", "/v1/{prefix}/"));
            assert!(ENDPOINTS.contains(&endpoint.as_str()), "{endpoint}");
        }
        assert!(matches!(find(&Method::PUT, "/v1/config"), Found::OtherMethods));
        assert!(matches!(find(&Method::GET, "/v1/other"), Found::Unknown));
        for page in crate::people::PAGES {
            assert!(matches!(find(&Method::GET, page), Found::Rule(_)), "{page}");
        }
    }

    #[test]
    fn what_changes_needs_more_than_reading() {
        let reads = ["/metrics", "/describe", "/exists", "/version/list"];
        let changes = |rule: &&Rule| rule.method != "GET" && !reads.iter().any(|end| rule.route.ends_with(end));
        for rule in RULES.iter().filter(changes) {
            assert!(rule.action.right() >= Right::Write, "{rule:?}");
        }
    }

    #[test]
    fn grants_are_changed_by_administrators() {
        let namespace = ["n".to_owned()];
        let key = "glidepath.grant.user:etl".to_owned();
        let (read, owner) = ("read".to_owned(), "owner".to_owned());
        let check = granting(&namespace, [(&key, &read)].into_iter(), [].iter()).unwrap();
        assert_eq!(check.map(|check| check.needs), Some(Right::Admin));
        let check = granting(&namespace, [].into_iter(), [&key].into_iter()).unwrap();
        assert_eq!(check.map(|check| check.needs), Some(Right::Admin));
        assert!(granting(&namespace, [(&owner, &read)].into_iter(), [&owner].into_iter()).unwrap().is_none());
        assert!(granting(&namespace, [(&key, &owner)].into_iter(), [].iter()).is_err());
    }
}
