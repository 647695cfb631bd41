//! Race detection: the accesses to an element of memory since the last barrier.

/// No accessor.
const NONE: u32 = u32::MAX;
/// More than one.
const MANY: u32 = u32::MAX - 1;

/// An invocation, where and when: its workgroup, its number there, and how many barriers its
/// workgroup had passed.
#[derive(Clone, Copy, Debug)]
pub struct Accessor {
    pub group: u32,
    pub lane: u32,
    pub epoch: u32,
}

/// How an element is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    Load,
    Store,
    Atomic,
}

/// Who loaded and who changed one element last.
#[derive(Clone, Copy, Debug)]
pub struct AccessHistory {
    load: Accessor,
    store: Accessor,
    /// Was the last change an atomic?
    atomic: bool,
    /// Is a copy to it under way?
    coming: bool,
    /// How many products that are under way read it.
    reading_products: u8,
}

const NO_ACCESSOR: Accessor = Accessor { group: NONE, lane: NONE, epoch: 0 };
/// Untouched.
pub const FRESH: AccessHistory = AccessHistory {
    load: NO_ACCESSOR,
    store: NO_ACCESSOR,
    atomic: false,
    coming: false,
    reading_products: 0,
};

/// Does the first come before the second only by chance?
fn unordered(past: Accessor, now: Accessor) -> bool {
    if past.group == NONE {
        return false;
    }
    past.group != now.group || (past.epoch == now.epoch && past.lane != now.lane)
}

impl AccessHistory {
    /// Has anybody stored here?
    pub fn stored(&self) -> bool {
        self.store.group != NONE
    }
    /// Notes that a copy begins; says what it is in conflict with.
    pub fn begin(&mut self, who: Accessor) -> Option<&'static str> {
        let conflict = self.touch(AccessKind::Store, who);
        self.coming = true;
        conflict
    }
    /// Notes that a product which reads it is under way.
    pub fn hold(&mut self) {
        self.reading_products += 1;
    }
    /// Notes that such a product has been waited for.
    pub fn release(&mut self) {
        self.reading_products -= 1;
    }
    /// Notes that a copy has been waited for.
    pub fn arrive(&mut self, who: Accessor) {
        self.coming = false;
        self.store = who;
    }
    /// Notes a touch; says what it is in conflict with.
    pub fn touch(&mut self, how: AccessKind, who: Accessor) -> Option<&'static str> {
        if self.coming {
            return Some("touches what a copy brings that was not waited for");
        }
        if self.reading_products > 0 && how != AccessKind::Load {
            return Some("changes what a product reads that was not waited for");
        }
        let after_store = unordered(self.store, who);
        let after_load = unordered(self.load, who);
        let conflict = match how {
            AccessKind::Load if after_store => Some("loads what another invocation stores"),
            AccessKind::Store if after_store => Some("stores where another invocation stores"),
            AccessKind::Store if after_load => Some("stores where another invocation loads"),
            AccessKind::Atomic if after_store && !self.atomic => {
                Some("changes where another invocation stores")
            }
            AccessKind::Atomic if after_load => Some("changes where another invocation loads"),
            AccessKind::Load | AccessKind::Store | AccessKind::Atomic => None,
        };
        match how {
            AccessKind::Load => {
                let same = |a: u32, b: u32| if a == b { a } else { MANY };
                self.load = if self.load.group == NONE {
                    who
                } else if self.load.group != who.group {
                    Accessor { group: MANY, ..who }
                } else if self.load.epoch != who.epoch {
                    who
                } else {
                    Accessor { lane: same(self.load.lane, who.lane), ..who }
                };
            }
            AccessKind::Store | AccessKind::Atomic => {
                // Who changes it after an atomic of another workgroup is told so above; here the
                // last one counts.
                self.store = who;
                self.atomic = how == AccessKind::Atomic;
            }
        }
        conflict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn who(group: u32, lane: u32, epoch: u32) -> Accessor {
        Accessor { group, lane, epoch }
    }

    #[test]
    fn touches_that_need_a_barrier() {
        use AccessKind::{Atomic, Load, Store};
        // first, second, is it a race?
        let rows = [
            ((Store, who(0, 0, 0)), (Load, who(0, 1, 0)), true),
            ((Store, who(0, 0, 0)), (Load, who(0, 1, 1)), false), // a barrier is between them
            ((Store, who(0, 0, 0)), (Load, who(0, 0, 0)), false),
            ((Load, who(0, 0, 0)), (Store, who(0, 1, 0)), true),
            ((Load, who(0, 0, 0)), (Load, who(1, 1, 0)), false),
            ((Store, who(0, 0, 0)), (Store, who(0, 1, 0)), true),
            ((Store, who(0, 0, 0)), (Store, who(1, 0, 5)), true), // barriers order one workgroup only
            ((Load, who(0, 0, 0)), (Store, who(1, 0, 5)), true),
            ((Atomic, who(0, 0, 0)), (Atomic, who(1, 1, 0)), false),
            ((Atomic, who(0, 0, 0)), (Load, who(0, 1, 0)), true),
            ((Store, who(0, 0, 0)), (Atomic, who(0, 1, 0)), true),
        ];
        for ((how, first), (then, second), race) in rows {
            let mut t = FRESH;
            assert_eq!(t.touch(how, first), None);
            assert_eq!(t.touch(then, second).is_some(), race, "{how:?} {first:?}, {then:?} {second:?}");
        }
    }

    #[test]
    fn two_readers_are_not_forgotten_for_one() {
        let mut t = FRESH;
        for lane in [0, 1] {
            assert_eq!(t.touch(AccessKind::Load, who(0, lane, 0)), None);
        }
        assert!(t.touch(AccessKind::Store, who(0, 1, 0)).is_some());
    }
}
