//! Lowering of memory of less than a word (bool, bytes, f16, bf16), for targets whose memory is of
//! words only.
//!
//! **Buffers** become buffers of words, as many elements in each as fit, the first in the lowest
//! bits: the bytes of a buffer stay as they are. A load takes a word apart. A store of whole words
//! is one; a store of less must leave the neighbours alone, which other invocations may be storing
//! to, so it is two atomics: an `and` that clears the bits, and an `or` that sets them. What is
//! between the two is not seen, for no other invocation may touch the element. Loads from a buffer
//! with such stores are atomics, too: a target may want all accesses of an atomic word to be.
//!
//! **Shared memory**, whose layout is seen by the kernel alone, becomes f32 or u32, an element in
//! each word, rounded or cut when it is stored: every word has one owner, and no atomics are
//! needed. It takes up to four times the bytes.
//!
//! Conversions are integer operations but for one product and one sum of normal numbers, so that
//! they depend neither on a target's conversions nor on whether it keeps subnormals.

use super::float8;
use super::writer::{Rewrite, Writer};
use crate::ir::{
    Access, Atomic, Binary, Compare, Constant, Elem, Inst, Kernel, Op, Place, Scalar, Type, Value,
};
use elinvar_core::Format;

/// IEEE 754's float of 16 bits.
const F16: Format = Format { name: "f16", exponent: 5, mantissa: 10, bias: 15, infinities: true };

/// An element of memory that is less than a word.
#[derive(Clone, Copy)]
struct Packed {
    elem: Elem,
    /// Is less than a word stored at a time?
    atomic: bool,
}

impl Packed {
    fn bits(self) -> u32 {
        8 * self.elem.size()
    }
    /// Elements in a word.
    fn per_word(self) -> u8 {
        (4 / self.elem.size()) as u8
    }
}

fn is_small(e: Elem) -> bool {
    match e {
        Elem::Bool | Elem::U8 | Elem::F8(_) | Elem::F16 | Elem::BF16 => true,
        Elem::I32 | Elem::U32 | Elem::I64 | Elem::U64 | Elem::F32 | Elem::F64 => false,
    }
}

/// Makes all memory memory of words. Floats of one byte are bytes already, copies to shared memory
/// loads and stores.
pub fn pack(k: &mut Kernel) {
    let mut buffers: Vec<Option<Packed>> = (k.buffers.iter())
        .map(|b| is_small(b.elem).then_some(Packed { elem: b.elem, atomic: false }))
        .collect();
    let values = &k.values;
    k.body.each_inst(&mut |inst| {
        if let Op::Store(Place::Buffer(i), _, v) = inst.op
            && let Some(p) = &mut buffers[i as usize]
        {
            p.atomic |= values[v.0 as usize].width() < p.per_word();
        }
    });
    for (b, p) in k.buffers.iter_mut().zip(&buffers) {
        if let Some(p) = p {
            b.elem = Elem::U32;
            if p.atomic {
                b.access = Access::ReadWrite;
            }
        }
    }
    let mut shared = Vec::new();
    for s in &mut k.shared {
        shared.push(is_small(s.elem).then_some(s.elem));
        match s.elem.scalar() {
            Scalar::F32 => s.elem = Elem::F32,
            Scalar::U32 | Scalar::Bool => s.elem = Elem::U32,
            Scalar::I32 | Scalar::I64 | Scalar::U64 | Scalar::F64 => {}
        }
    }
    if buffers.iter().all(Option::is_none) && shared.iter().all(Option::is_none) {
        return;
    }
    Pack { w: Writer::new(std::mem::take(&mut k.values)), buffers, shared }.rewrite(k);
}

struct Pack {
    w: Writer,
    buffers: Vec<Option<Packed>>,
    shared: Vec<Option<Elem>>,
}

impl Rewrite for Pack {
    fn writer(&mut self) -> &mut Writer {
        &mut self.w
    }

    fn inst(&mut self, mut inst: Inst) -> Option<Value> {
        match &mut inst.op {
            &mut Op::Load(place @ Place::Buffer(i), at, width) => {
                if let Some(p) = self.buffers[i as usize] {
                    return Some(self.load(p, place, at, width));
                }
            }
            &mut Op::Store(place @ Place::Buffer(i), at, v) => {
                if let Some(p) = self.buffers[i as usize] {
                    self.store(p, place, at, v);
                    return None;
                }
            }
            Op::Store(Place::Shared(i), _, v) => {
                if let Some(elem) = self.shared[*i as usize] {
                    *v = as_stored(&mut self.w, elem, *v);
                }
            }
            _ => {}
        }
        self.w.out.push(inst);
        None
    }
}

impl Pack {
    /// The number of a word, and how many bits of it come before an element.
    fn word(&mut self, p: Packed, at: Value) -> (Value, Value) {
        let w = &mut self.w;
        let at = if w.scalar(at) == Scalar::U32 { at } else { w.convert(at, Scalar::U32) };
        let elements = u32::from(p.per_word());
        let [places, mask, bits] = [elements.ilog2(), elements - 1, p.bits().ilog2()].map(|n| w.u32(at, n));
        let word = w.binary(Binary::Shr, at, places);
        let inside = w.binary(Binary::And, at, mask);
        (word, w.binary(Binary::Shl, inside, bits))
    }

    /// Words from a number on.
    fn words(&mut self, p: Packed, place: Place, word: Value, n: u8) -> Vec<Value> {
        let w = &mut self.w;
        if p.atomic {
            let one = |w: &mut Writer, i: u8| {
                let more = w.u32(word, u32::from(i));
                let word = w.binary(Binary::Add, word, more);
                let zero = w.u32(word, 0);
                w.push(Op::Atomic(Atomic::Or, place, word, zero), Type::U32)
            };
            return (0..n).map(|i| one(w, i)).collect();
        }
        let all = w.push(Op::Load(place, word, n), Type::Vector(Scalar::U32, n));
        match n {
            1 => vec![all],
            _ => (0..n).map(|i| w.push(Op::Extract(all, i), Type::U32)).collect(),
        }
    }

    fn load(&mut self, p: Packed, place: Place, at: Value, width: u8) -> Value {
        let (word, first) = self.word(p, at);
        let words = self.words(p, place, word, width.div_ceil(p.per_word()));
        let w = &mut self.w;
        let mask = w.u32(word, (1 << p.bits()) - 1);
        let codes: Vec<Value> = (0..width)
            .map(|i| {
                let own = u32::from(i % p.per_word()) * p.bits();
                let mut places = w.u32(word, own);
                // Less than a word may begin anywhere in it.
                if width < p.per_word() {
                    places = w.binary(Binary::Add, places, first);
                }
                let code = w.binary(Binary::Shr, words[usize::from(i / p.per_word())], places);
                w.binary(Binary::And, code, mask)
            })
            .collect();
        let codes = match width {
            1 => codes[0],
            _ => w.push(Op::Compose(codes), Type::Vector(Scalar::U32, width)),
        };
        decode(w, p.elem, codes)
    }

    fn store(&mut self, p: Packed, place: Place, at: Value, v: Value) {
        let width = self.w.ty(v).width();
        let codes = encode(&mut self.w, p.elem, v);
        let (word, first) = self.word(p, at);
        let w = &mut self.w;
        let each: Vec<Value> = match width {
            1 => vec![codes],
            _ => (0..width).map(|i| w.push(Op::Extract(codes, i), Type::U32)).collect(),
        };
        let fields: Vec<Value> = (each.chunks(usize::from(p.per_word())))
            .map(|some| {
                let moved = |w: &mut Writer, i: usize| {
                    let places = w.u32(word, i as u32 * p.bits());
                    w.binary(Binary::Shl, some[i], places)
                };
                (1..some.len()).fold(some[0], |all, i| {
                    let more = moved(w, i);
                    w.binary(Binary::Or, all, more)
                })
            })
            .collect();
        if width < p.per_word() {
            let own = w.u32(word, (1 << (p.bits() * u32::from(width))) - 1);
            let own = w.binary(Binary::Shl, own, first);
            let rest = w.unary(crate::ir::Unary::Not, own);
            let field = w.binary(Binary::Shl, fields[0], first);
            w.push(Op::Atomic(Atomic::And, place, word, rest), Type::U32);
            w.push(Op::Atomic(Atomic::Or, place, word, field), Type::U32);
            return;
        }
        let all = match fields.len() {
            1 => fields[0],
            n => w.push(Op::Compose(fields), Type::Vector(Scalar::U32, n as u8)),
        };
        w.out.push(Inst { op: Op::Store(place, word, all), results: Vec::new() });
    }
}

/// The values of codes.
fn decode(w: &mut Writer, elem: Elem, codes: Value) -> Value {
    match elem {
        Elem::Bool => {
            let zero = w.u32(codes, 0);
            w.compare(Compare::Ne, codes, zero)
        }
        Elem::F16 => float8::decode(w, codes, F16),
        Elem::BF16 => {
            let places = w.u32(codes, 16);
            let bits = w.binary(Binary::Shl, codes, places);
            w.bitcast(bits, Scalar::F32)
        }
        _ => codes,
    }
}

/// The codes of values, in the low bits of words.
fn encode(w: &mut Writer, elem: Elem, v: Value) -> Value {
    match elem {
        Elem::Bool => w.convert(v, Scalar::U32),
        Elem::F16 => float8::encode(w, v, F16),
        Elem::BF16 => {
            let bits = bf16_bits(w, v);
            let places = w.u32(bits, 16);
            w.binary(Binary::Shr, bits, places)
        }
        _ => {
            let mask = w.u32(v, 0xff);
            w.binary(Binary::And, v, mask)
        }
    }
}

/// What a load would give of a value that is stored.
fn as_stored(w: &mut Writer, elem: Elem, v: Value) -> Value {
    match elem {
        Elem::F16 => round_f16(w, v),
        Elem::BF16 => round_bf16(w, v),
        _ => encode(w, elem, v),
    }
}

/// An f32 through f16 and back.
pub fn round_f16(w: &mut Writer, x: Value) -> Value {
    let codes = float8::encode(w, x, F16);
    float8::decode(w, codes, F16)
}

/// An f32 through bf16 and back.
pub fn round_bf16(w: &mut Writer, x: Value) -> Value {
    let bits = bf16_bits(w, x);
    w.bitcast(bits, Scalar::F32)
}

/// The bits of an f32 rounded to the upper half of them.
fn bf16_bits(w: &mut Writer, x: Value) -> Value {
    let bits = w.bitcast(x, Scalar::U32);
    let [places, one, half, keep, rest, infinity, quiet] =
        [16, 1, 0x7fff, 0xffff_0000, 0x7fff_ffff, 0x7f80_0000, 0x7fc0_0000].map(|n| w.u32(bits, n));
    let last = w.binary(Binary::Shr, bits, places);
    let odd = w.binary(Binary::And, last, one);
    let near = w.binary(Binary::Add, bits, half);
    let near = w.binary(Binary::Add, near, odd);
    let near = w.binary(Binary::And, near, keep);
    let magnitude = w.binary(Binary::And, bits, rest);
    let nan = w.compare(Compare::Gt, magnitude, infinity);
    w.select(nan, quiet, near)
}

/// An integer of 32 bits as f32: its halves are exact, and so is the product, so the sum rounds
/// once.
pub fn int_to_float(w: &mut Writer, a: Value) -> Value {
    let (places, mask) = (w.int(a, 16), w.int(a, 0xffff));
    let high = w.binary(Binary::Shr, a, places);
    let low = w.binary(Binary::And, a, mask);
    let (high, low) = (w.convert(high, Scalar::F32), w.convert(low, Scalar::F32));
    let scale = w.number(high, Constant::from(65536f32));
    let high = w.binary(Binary::Mul, high, scale);
    w.binary(Binary::Add, high, low)
}
