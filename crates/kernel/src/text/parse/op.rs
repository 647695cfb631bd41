//! Instructions in the text form.

use super::{Parser, Read, number};
use crate::ir::{
    Atomic, Binary, Builtin, Compare, FragmentLayout, Op, Place, Reduce, Region, Scalar, Type, Unary, Value,
};
use crate::text::words::Word;

impl<'a> Parser<'a> {
    pub(super) fn op(&mut self, ty: Option<Type>) -> Read<Op> {
        let scalar = ty.and_then(Type::scalar).unwrap_or(Scalar::Bool);
        let width = ty.map_or(1, Type::width);
        let fragment = |p: &Self| match ty {
            Some(Type::Fragment(f)) => Ok(f),
            Some(Type::Vector(..)) | None => p.wrong("an instruction that gives no fragment"),
        };
        let word = self.word();
        if let Some(op) = Unary::of(word) {
            return Ok(Op::Unary(op, self.value()?));
        }
        if let Some(op) = Binary::of(word) {
            let [a, b] = self.values()?;
            return Ok(Op::Binary(op, a, b));
        }
        if let Some(op) = Compare::of(word) {
            let [a, b] = self.values()?;
            return Ok(Op::Compare(op, a, b));
        }
        if let Some(op) = Reduce::of(word) {
            return Ok(Op::Reduce(op, self.value()?));
        }
        if let Some(b) = Builtin::of(word) {
            return Ok(Op::Builtin(b));
        }
        if let Some(op) = Atomic::of(word) {
            let (p, at) = self.indexed()?;
            self.expect(",")?;
            return Ok(Op::Atomic(op, p, at, self.value()?));
        }
        Ok(match word {
            "const" => Op::Const(self.known("a number of that type", |w| number(scalar, w))?),
            "param" => Op::Param(self.param()?),
            "fma" => {
                let [a, b, c] = self.values()?;
                Op::Fma(a, b, c)
            }
            "select" => {
                let [a, b, c] = self.values()?;
                Op::Select(a, b, c)
            }
            "convert" => Op::Convert(scalar, self.value()?),
            "fptosi" => Op::FpToSi(self.value()?),
            "bitcast" => Op::Bitcast(scalar, self.value()?),
            "splat" => Op::Splat(width, self.value()?),
            "compose" => Op::Compose(self.list()?),
            "extract" => {
                let v = self.value()?;
                self.expect(",")?;
                Op::Extract(v, self.u8()?)
            }
            "load" => {
                let (p, at) = self.indexed()?;
                Op::Load(p, at, width)
            }
            "store" => {
                let (p, at) = self.indexed()?;
                self.expect("=")?;
                Op::Store(p, at, self.value()?)
            }
            "barrier" => Op::Barrier,
            "cp_async" => {
                let (to, at) = self.indexed()?;
                self.expect("=")?;
                let (from, index) = self.indexed()?;
                self.expect(",")?;
                let count = self.u8()?;
                self.expect(",")?;
                Op::CpAsync { to, at, from, index, count, there: self.value()? }
            }
            "cp_async_commit" => Op::CpAsyncCommit,
            "cp_async_wait" => Op::CpAsyncWait(self.u8()?),
            "tma_load" => {
                let mbarrier = self.value()?;
                let mut tiles = Vec::new();
                while self.accept(",") {
                    tiles.push(self.tma_tile()?);
                }
                Op::TmaLoad { mbarrier, tiles }
            }
            "mbarrier_wait" => {
                let [mbarrier, phase] = self.values()?;
                Op::MbarrierWait(mbarrier, phase)
            }
            "wgmma_ss" => {
                let mut block = || -> Read<(FragmentLayout, Place, Value)> {
                    let l = self.known("`row_major` or `col_major`", FragmentLayout::of)?;
                    let (p, at) = self.indexed()?;
                    self.expect(",")?;
                    Ok((l, p, at))
                };
                let (a, b) = (block()?, block()?);
                Op::WgmmaSs { a, b, sums: self.list()? }
            }
            "wgmma_rs" => {
                let mut rows = || -> Read<Value> {
                    let v = self.value()?;
                    self.expect(",")?;
                    Ok(v)
                };
                let a = [rows()?, rows()?, rows()?, rows()?];
                let l = self.known("`row_major` or `col_major`", FragmentLayout::of)?;
                let (p, at) = self.indexed()?;
                self.expect(",")?;
                Op::WgmmaRs { a, b: (l, p, at), sums: self.list()? }
            }
            "wgmma_wait" => Op::WgmmaWait(self.u8()?),
            "shuffle" => {
                let [v, lane] = self.values()?;
                Op::Shuffle(v, lane)
            }
            "broadcast" => {
                let v = self.value()?;
                self.expect(",")?;
                Op::Broadcast(v, self.u8()?)
            }
            "fragment_load" => {
                let l = self.known("`row_major` or `col_major`", FragmentLayout::of)?;
                let (p, at) = self.indexed()?;
                self.expect(",")?;
                Op::FragmentLoad(fragment(self)?, l, p, at, self.value()?)
            }
            "fragment_fill" => Op::FragmentFill(fragment(self)?, self.value()?),
            "fragment_mul_add" => {
                let [a, b, c] = self.values()?;
                Op::FragmentMulAdd(a, b, c)
            }
            "fragment_extract" => {
                let v = self.value()?;
                self.expect(",")?;
                Op::FragmentExtract(v, self.u8()?)
            }
            "fragment_compose" => Op::FragmentCompose(fragment(self)?, self.list()?),
            "fragment_store" => {
                let l = self.known("`row_major` or `col_major`", FragmentLayout::of)?;
                let (p, at) = self.indexed()?;
                self.expect(",")?;
                let stride = self.value()?;
                self.expect("=")?;
                Op::FragmentStore(l, p, at, stride, self.value()?)
            }
            "if" => {
                let c = self.value()?;
                self.expect("{")?;
                let then = self.region(Vec::new())?;
                let other = if self.accept("else") {
                    self.expect("{")?;
                    self.region(Vec::new())?
                } else {
                    Region::default()
                };
                Op::If(c, then, other)
            }
            "for" => {
                let mut args = vec![self.define()?.0];
                self.expect("=")?;
                let start = self.value()?;
                self.expect("to")?;
                let end = self.value()?;
                self.expect("step")?;
                let step = self.value()?;
                let mut init = Vec::new();
                if self.accept("carry") {
                    loop {
                        args.push(self.define()?.0);
                        self.expect("=")?;
                        init.push(self.value()?);
                        if !self.accept(",") {
                            break;
                        }
                    }
                }
                self.expect("{")?;
                Op::For { start, end, step, init, body: self.region(args)? }
            }
            _ => {
                self.at -= 1;
                return self.wrong("an instruction");
            }
        })
    }
}
