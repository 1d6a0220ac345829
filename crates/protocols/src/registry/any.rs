//! The code that is the same for each protocol, generated from the list in `registry.rs`: it selects the protocol at
//! run time.

macro_rules! protocols {
    ($($(#[doc = $doc:literal])* $variant:ident: $design:ty $(, if $feature:literal)?;)*) => {
        /// The protocol of a catalog.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Protocol {
            $($(#[cfg(feature = $feature)])? $(#[doc = $doc])* $variant,)*
        }

        impl Protocol {
            /// All of them.
            pub const ALL: &'static [Self] = &[$($(#[cfg(feature = $feature)])? Self::$variant),*];
        }

        /// A catalog of any protocol.
        pub enum AnyCatalog<E: Env> {
            $($(#[cfg(feature = $feature)])? $(#[doc = $doc])* $variant(<$design as Design>::Catalog<E>),)*
        }

        impl<E: Env + Clone> Clone for AnyCatalog<E>
        where
            E::Objects: Clone,
        {
            fn clone(&self) -> Self {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(catalog) => Self::$variant(catalog.clone()),)*
                }
            }
        }

        /// A snapshot of a catalog of any protocol.
        #[derive(Clone, Debug)]
        pub enum AnySnapshot {
            $($(#[cfg(feature = $feature)])? $(#[doc = $doc])* $variant(<$design as Design>::Snapshot),)*
        }

        /// What the handles of a process to one catalog share, whatever its protocol.
        #[derive(Clone)]
        pub enum AnySharedState {
            $($(#[cfg(feature = $feature)])? $(#[doc = $doc])* $variant(Arc<<$design as Design>::SharedState>),)*
        }

        impl AnySharedState {
            /// A handle to the catalog. Makes no request.
            pub fn open<E: Env>(&self, env: E, store: E::Objects) -> AnyCatalog<E> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(shared_state) => {
                        AnyCatalog::$variant(<$design>::open(env, store, Arc::clone(shared_state)))
                    })*
                }
            }
        }

        impl Protocol {
            /// Its name, as people write it and as the label has it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant => <$design>::NAME,)*
                }
            }

            /// The state shared by the handles to the catalog of this protocol below a prefix (empty, or ending in
            /// `/`).
            #[must_use]
            pub fn shared_state(self, prefix: &str, settings: &Settings) -> AnySharedState {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant => {
                        AnySharedState::$variant(Arc::new(<$design>::shared_state(prefix, settings)))
                    })*
                }
            }
        }

        impl Protocol {
            /// Runs an operation that depends on the protocol's types.
            pub fn visit<V: Visitor>(self, visitor: V) -> V::Output {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant => visitor.visit::<$design>(),)*
                }
            }
        }

        impl<E: Env> AnyCatalog<E> {
            /// Its protocol.
            #[must_use]
            pub fn protocol(&self) -> Protocol {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(_) => Protocol::$variant,)*
                }
            }

            /// See [`Design::facts`].
            #[must_use]
            pub fn facts(&self, at: &AnySnapshot) -> Facts {
                match at {
                    $($(#[cfg(feature = $feature)])? AnySnapshot::$variant(at) => <$design>::facts(at),)*
                }
            }

            /// See [`Design::oldest`].
            ///
            /// # Errors
            /// If the store cannot be read, or the snapshot is of another protocol.
            pub async fn oldest(&self, newest: &AnySnapshot) -> Result<Version, LoadError> {
                match (self, newest) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(newest)) => {
                        <$design>::oldest(catalog, newest).await
                    })*
                    _ => Err(foreign()),
                }
            }

            /// See [`Design::version_at`].
            ///
            /// # Errors
            /// If the store cannot be read.
            pub async fn version_at(&self, version: Version) -> Result<Option<AnySnapshot>, LoadError> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(catalog) => {
                        Ok(<$design>::version_at(catalog, version).await?.map(AnySnapshot::$variant))
                    })*
                }
            }

            /// See [`Design::changed`].
            ///
            /// # Errors
            /// If the store cannot be read, or a snapshot is of another protocol.
            pub async fn changed(
                &self,
                before: &AnySnapshot,
                now: &AnySnapshot,
                limit: usize,
            ) -> Result<Vec<Changed>, LoadError> {
                match (self, before, now) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(before), AnySnapshot::$variant(now)) => {
                        <$design>::changed(catalog, Some(before), now, limit).await
                    })*
                    _ => Err(foreign()),
                }
            }

            /// See [`Design::vacuum`].
            ///
            /// # Errors
            /// [`VacuumError`]; it can always be run again.
            pub async fn vacuum(&self, keep: Keep) -> Result<Removed, VacuumError> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(catalog) => <$design>::vacuum(catalog, keep).await,)*
                }
            }

            /// See [`Design::fsck`].
            ///
            /// # Errors
            /// If there is no catalog, or the store does not answer.
            pub async fn fsck(&self, mend: bool) -> Result<Report, LoadError> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(catalog) => <$design>::fsck(catalog, mend).await,)*
                }
            }

            /// Creates the catalog without checking the label: for callers that chose the prefix themselves.
            pub async fn create_here(&self, creation: Creation) -> Outcome<AnySnapshot> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(catalog) => {
                        <$design>::create(catalog, creation).await.map(AnySnapshot::$variant)
                    })*
                }
            }
        }

        impl<E: Env> Catalog for AnyCatalog<E> {
            type Snapshot = AnySnapshot;

            async fn load(&self) -> Result<AnySnapshot, LoadError> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(catalog) => catalog.load().await.map(AnySnapshot::$variant),)*
                }
            }

            fn version(&self, at: &AnySnapshot) -> Option<Version> {
                match (self, at) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(at)) => catalog.version(at),)*
                    _ => None,
                }
            }

            async fn tables<'a>(&self, at: &'a AnySnapshot, ids: &[TableId]) -> Result<TableStates<'a>, LoadError> {
                match (self, at) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(at)) => catalog.tables(at, ids).await,)*
                    _ => Err(foreign()),
                }
            }

            async fn entry(&self, at: &AnySnapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
                match (self, at) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(at)) => {
                        Catalog::entry(catalog, at, name).await
                    })*
                    _ => Err(foreign()),
                }
            }

            async fn children(
                &self,
                at: &AnySnapshot,
                namespace: Option<&Name>,
                after: Option<&Name>,
                limit: usize,
            ) -> Result<Vec<(Name, Entry)>, LoadError> {
                match (self, at) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(at)) => {
                        Catalog::children(catalog, at, namespace, after, limit).await
                    })*
                    _ => Err(foreign()),
                }
            }

            async fn list<T: PartialEq>(
                &self,
                at: &AnySnapshot,
                namespace: Option<&Name>,
                after: Option<&Name>,
                limit: usize,
                what: impl Fn(&Name, &Entry) -> Option<T>,
            ) -> Result<Vec<(Name, T)>, LoadError> {
                match (self, at) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(at)) => {
                        Catalog::list(catalog, at, namespace, after, limit, what).await
                    })*
                    _ => Err(foreign()),
                }
            }

            async fn search(
                &self,
                at: &AnySnapshot,
                enters: impl Fn(&Name) -> bool,
                wanted: impl Fn(&Name, &Entry) -> bool,
            ) -> Result<Vec<Name>, LoadError> {
                match (self, at) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(at)) => {
                        Catalog::search(catalog, at, enters, wanted).await
                    })*
                    _ => Err(foreign()),
                }
            }

            async fn of_kind(&self, at: &AnySnapshot, kind: Kind) -> Result<Vec<Name>, LoadError> {
                match (self, at) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(at)) => {
                        Catalog::of_kind(catalog, at, kind).await
                    })*
                    _ => Err(foreign()),
                }
            }

            async fn with_base(&self, at: &AnySnapshot, base: &Name) -> Result<Vec<Name>, LoadError> {
                match (self, at) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(at)) => {
                        Catalog::with_base(catalog, at, base).await
                    })*
                    _ => Err(foreign()),
                }
            }

            async fn trim(&self, namespace: Option<&Name>) -> Result<u64, LoadError> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(catalog) => catalog.trim(namespace).await,)*
                }
            }

            async fn commit(&self, base: &AnySnapshot, changes: &Changes) -> Outcome<AnySnapshot> {
                match (self, base) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(base)) => {
                        catalog.commit(base, changes).await.map(AnySnapshot::$variant)
                    })*
                    _ => Outcome::not_read(foreign()),
                }
            }
        }

        impl<E: Env> Grouped for AnyCatalog<E> {
            fn newest_known(&self) -> Option<AnySnapshot> {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(catalog) => catalog.newest_known().map(AnySnapshot::$variant),)*
                }
            }

            fn is_apart(&self, request: &[Action]) -> bool {
                match self {
                    $($(#[cfg(feature = $feature)])? Self::$variant(catalog) => catalog.is_apart(request),)*
                }
            }

            async fn attempt_group(&self, base: &AnySnapshot, requests: &[&[Action]]) -> GroupAttempt<AnySnapshot> {
                match (self, base) {
                    $($(#[cfg(feature = $feature)])? (Self::$variant(catalog), AnySnapshot::$variant(base)) => {
                        catalog.attempt_group(base, requests).await.map(AnySnapshot::$variant)
                    })*
                    _ => GroupAttempt::NotMade(foreign()),
                }
            }
        }
    };
}

pub(super) use protocols;
