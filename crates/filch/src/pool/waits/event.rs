//! Events of which the list knows which waits hold them up.

/// The end of a group of jobs, or the release of a lock.
///
/// The thread that lists a wait lists with it the events that cannot happen before that wait has
/// ended. So an event is identified by a number alone, and the check reads nothing else about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventId {
    /// The address of the group, which exists as long as one of its jobs is in progress; or the
    /// number of the lock, which no other lock has.
    number: u64,
    kind: EventKind,
}

/// What kind of event it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventKind {
    /// All jobs of a run of a graph end.
    Run,
    /// All tasks of a scope, or all parts of another computation that the caller waits for, end.
    Scope,
    /// The other half of a `join` ends.
    Half,
    /// A call on a worker returns.
    Call,
    /// A lock is released by the only thread that holds it.
    Lock,
    /// A lock is released by one of the threads that share it.
    SharedLock,
    /// A lock is released by all threads that hold it.
    AnyLock,
}

impl EventId {
    /// The end of a group of jobs. `group` is at the same address until then.
    #[inline(always)]
    pub(crate) fn end_of<T>(group: *const T, kind: EventKind) -> Self {
        let number = group.addr() as u64;
        Self { number, kind }
    }

    /// The release of the lock with this number.
    pub(crate) fn release_of(lock: u64, kind: EventKind) -> Self {
        Self { number: lock, kind }
    }

    /// The releases of a lock that a thread which waits for it needs.
    pub(crate) fn parts(self) -> impl Iterator<Item = Self> {
        let kinds: &[_] = match self.kind {
            EventKind::AnyLock => &[EventKind::Lock, EventKind::SharedLock],
            _ => &[EventKind::Lock],
        };
        kinds.iter().map(move |&kind| Self { kind, ..self })
    }

    /// The release of the same lock by a thread that shares it.
    pub(crate) fn shared(self) -> Self {
        let kind = EventKind::SharedLock;
        Self { kind, ..self }
    }

    pub(super) fn kind(self) -> EventKind {
        self.kind
    }

    /// Whether it is the end of a group of jobs whose caller waits for them.
    pub(super) fn is_group(self) -> bool {
        !matches!(
            self.kind,
            EventKind::Lock | EventKind::SharedLock | EventKind::AnyLock
        )
    }
}
