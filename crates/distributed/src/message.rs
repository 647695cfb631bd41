//! What workers send each other: a head that says which call it belongs to, then bytes.
//!
//! Every message has it, so a worker that makes another call than its neighbour is told which, and
//! does not take other numbers for its own.

use elinvar_core::{DType, Error, Result};
use std::fmt;

/// The first bytes of each message: the format, and its version.
const MAGIC: [u8; 4] = *b"elv4";
/// Bytes of a head.
pub const HEAD: usize = 40;

/// The kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A sum over all, for all.
    AllReduce,
    /// A sum over all, of which each has a part.
    ReduceScatter,
    /// What each has, for all.
    AllGather,
    /// What one has, for all.
    Broadcast,
    /// Nothing but waiting.
    Barrier,
    /// Something that must be equal everywhere.
    Agree,
    /// What each has, for one.
    Gather,
    /// Whether devices can send each other what they have.
    Devices,
}

const KINDS: [(Kind, &str); 8] = [
    (Kind::AllReduce, "all_reduce"),
    (Kind::ReduceScatter, "reduce_scatter"),
    (Kind::AllGather, "all_gather"),
    (Kind::Broadcast, "broadcast"),
    (Kind::Barrier, "barrier"),
    (Kind::Agree, "agree"),
    (Kind::Gather, "gather"),
    (Kind::Devices, "its first call with tensors"),
];

/// A call, which all workers make alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What is done.
    pub kind: Kind,
    /// The type of the elements.
    pub dtype: DType,
    /// How many a worker has.
    pub count: u64,
    /// Shards of a sum; the root of a broadcast.
    pub with: u64,
    /// A digest of a tensor's shape; 0 of numbers without one.
    pub shape: u64,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|k| k.0 == self.kind).map_or("", |k| k.1);
        let Call { dtype, count, with, .. } = self;
        match self.kind {
            Kind::AllReduce | Kind::ReduceScatter => {
                write!(f, "{name} of {count} {dtype} from {with} shards")
            }
            Kind::AllGather => write!(f, "{name} of {count} {dtype}"),
            Kind::Broadcast => write!(f, "{name} of {count} {dtype} of worker {with}"),
            Kind::Gather => write!(f, "{name} of {count} {dtype} for worker {with}"),
            Kind::Barrier | Kind::Agree | Kind::Devices => f.write_str(name),
        }
    }
}

/// Tells shapes of one size apart, and cuts of one vector.
pub fn digest(all: &[usize]) -> u64 {
    let seed = all.len() as u64 + 1;
    all.iter().fold(seed, |h, n| (h ^ *n as u64).wrapping_mul(0x0100_0000_01b3).rotate_left(23))
}

/// A head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Which call of its worker it belongs to, from 0.
    pub number: u64,
    /// What is called.
    pub call: Call,
    /// Do the numbers go from device to device, and not in messages behind such heads?
    pub on_devices: bool,
}

impl Head {
    /// The first bytes of a message.
    pub fn bytes(self) -> [u8; HEAD] {
        let Call { kind, dtype, count, with, shape } = self.call;
        let mut b = [0; HEAD];
        b[..4].copy_from_slice(&MAGIC);
        b[4] = kind as u8;
        // A place in a list, which programs of one version have in common.
        b[5] = DType::ALL.iter().position(|t| *t == dtype).map_or(u8::MAX, |i| i as u8);
        b[6] = u8::from(self.on_devices);
        b[8..16].copy_from_slice(&self.number.to_le_bytes());
        b[16..24].copy_from_slice(&count.to_le_bytes());
        b[24..32].copy_from_slice(&with.to_le_bytes());
        b[32..].copy_from_slice(&shape.to_le_bytes());
        b
    }
    /// From the first bytes of a message.
    ///
    /// # Errors
    /// `Format` if it is no such message.
    fn read(message: &[u8]) -> Result<Head> {
        let wrong = || {
            Error::format(
                "a message of another program or of another version of elinvar; all workers must run the same",
            )
        };
        let b: &[u8; HEAD] = message.first_chunk().ok_or_else(|| {
            Error::format(format!("a message of {} bytes, which was cut short", message.len()))
        })?;
        let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| b[at + i]));
        let kind = KINDS.get(usize::from(b[4])).ok_or_else(wrong)?.0;
        let dtype = *DType::ALL.get(usize::from(b[5])).ok_or_else(wrong)?;
        if b[..4] != MAGIC || b[6] > 1 {
            return Err(wrong());
        }
        let call = Call { kind, dtype, count: number(16), with: number(24), shape: number(32) };
        Ok(Head { number: number(8), call, on_devices: b[6] == 1 })
    }
    /// The bytes after the head of a message of `peer`, which must belong to this call and be
    /// `bytes` long.
    ///
    /// # Errors
    /// `InvalidArgument` if the peer makes another call; `Format` if it is no such message.
    pub fn check(self, peer: usize, message: &[u8], bytes: usize) -> Result<&[u8]> {
        let place = || format!("distributed: worker {peer}");
        let theirs = Head::read(message).map_err(|e| e.at(place()))?;
        let reshaped = Call { shape: self.call.shape, ..theirs.call };
        if theirs != self && (Head { call: reshaped, ..theirs }) == self {
            return Err(Error::shape(format!(
                "distributed: worker {peer} calls {} with a tensor of another shape than this one, or cut elsewhere; all workers must have the same",
                theirs.call
            )));
        }
        if theirs.on_devices != self.on_devices && (theirs.number, theirs.call) == (self.number, self.call) {
            let how = |on_devices| if on_devices { "by NCCL" } else { "through host memory" };
            return Err(Error::argument(format!(
                "distributed: worker {peer} sends what it has for {} {}, and this one {}; all workers must take a device of one kind",
                self.call,
                how(theirs.on_devices),
                how(self.on_devices)
            )));
        }
        if theirs != self {
            return Err(Error::argument(format!(
                "distributed: worker {peer} calls {} (its call {}) where this one calls {} (its call {}); all workers must make the same calls",
                theirs.call, theirs.number, self.call, self.number
            )));
        }
        let body = &message[HEAD..];
        if body.len() != bytes {
            let why = format!("{} bytes follow a head that stands for {bytes}", body.len());
            return Err(Error::format(why).at(place()));
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let call = Call { kind: Kind::AllReduce, dtype: DType::F32, count: 10, with: 8, shape: 5 };
        Head { number: 3, call, on_devices: false }
    }

    #[test]
    fn every_head_is_read_as_it_was_written() {
        for (kind, _) in KINDS {
            for dtype in DType::ALL {
                let call = Call { kind, dtype, count: 1 << 40, with: 7, shape: 3 };
                for on_devices in [false, true] {
                    let head = Head { number: u64::MAX, call, on_devices };
                    assert_eq!(Head::read(&head.bytes()).unwrap(), head);
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_told() {
        let message = [&head().bytes()[..], &[1, 2, 3, 4]].concat();
        assert_eq!(head().check(1, &message, 4).unwrap(), [1, 2, 3, 4]);
        let said = |message: &[u8], bytes| head().check(1, message, bytes).unwrap_err().to_string();
        assert!(said(&message, 8).contains("worker 1: 4 bytes follow a head that stands for 8"));
        assert!(said(&message[..20], 4).contains("worker 1: a message of 20 bytes, which was cut short"));
        let mut other = message.clone();
        other[3] = b'1';
        assert!(said(&other, 4).contains("another version of elinvar"), "{}", said(&other, 4));
        let mut other = head();
        other.call.shape = 6;
        let shapes = said(&other.bytes(), 0);
        assert!(
            shapes
                .contains("worker 1 calls all_reduce of 10 f32 from 8 shards with a tensor of another shape")
        );
        let mut other = head();
        other.on_devices = true;
        let ways = said(&other.bytes(), 0);
        assert!(ways.contains("worker 1 sends what it has for all_reduce of 10 f32 from 8 shards by NCCL, and this one through host memory"), "{ways}");
        let mut other = head();
        other.call = Call { kind: Kind::Broadcast, with: 2, ..other.call };
        let said = said(&other.bytes(), 0);
        assert!(
            said.contains("worker 1 calls broadcast of 10 f32 of worker 2 (its call 3) where this one calls all_reduce of 10 f32 from 8 shards (its call 3)"),
            "{said}"
        );
    }
}
