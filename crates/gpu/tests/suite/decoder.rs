//! A token of a recorded step has the bits of the model, and is one launch of a graph.

use super::{cuda, interp};
use elinvar_driver::null::Call;
use elinvar_driver::{Cuda, Driver, Interp, Null, Vulkan};
use elinvar_gpu::{Gpu, GpuDevice};
use elinvar_nn::decoder::Decoder;
use elinvar_nn::generate::CausalLm;
use elinvar_nn::models::{Gpt2, Gpt2Config};
use elinvar_nn::{Generator, Module};
use elinvar_ops::Backend;
use elinvar_reference::{Reference, ReferenceDevice};
use elinvar_tensor::{Tensor, no_grad};
use std::sync::Arc;

fn model<B: Backend>(d: &B::Device) -> Arc<Gpt2<B>> {
    let net = Gpt2::new(Gpt2Config::new(2, 2, 8, 8, 11), &mut Generator::new(2), d).unwrap();
    net.eval();
    Arc::new(net)
}

fn tokens<B: Backend>(ids: &[i64], d: &B::Device) -> Tensor<B> {
    Tensor::from_vec(ids.to_vec(), [1, ids.len()], d)
}

fn bits<B: Backend>(d: &B::Device) {
    let (net, definition) = (model::<B>(d), model::<Reference>(&ReferenceDevice));
    let (mut decoder, mut cache) = (Decoder::new(net, 8).unwrap(), definition.start());
    for ids in [&[3i64, 5][..], &[1], &[4], &[1, 5], &[9]] {
        let want = no_grad(|| definition.advance(&tokens(ids, &ReferenceDevice), &mut cache));
        let got = decoder.read(&[ids]).unwrap();
        let all = |x: elinvar_core::HostTensor| x.data().to_le_bytes();
        assert_eq!(all(got.to_host().unwrap()), all(want.to_host().unwrap()), "{ids:?}");
    }
}

#[test]
fn a_decoder_has_the_bits_of_the_reference() {
    bits::<Gpu<Interp>>(&interp());
    bits::<Gpu<Cuda>>(&cuda());
    if let Some(d) = super::vulkan() {
        bits::<Gpu<Vulkan>>(&d);
    }
}

#[test]
fn a_token_is_one_launch() {
    let d = GpuDevice::new(Null::open(0).unwrap(), 0);
    let mut decoder = Decoder::new(model::<Gpu<Null>>(&d), 8).unwrap();
    decoder.read(&[&[3, 5]]).unwrap();
    decoder.read(&[&[1]]).unwrap();
    let driver = d.driver().unwrap();
    for token in [4, 2, 7] {
        driver.take();
        drop(decoder.read(&[&[token]]).unwrap());
        let calls = driver.take();
        let count = |f: fn(&&Call) -> bool| calls.iter().filter(f).count();
        assert_eq!(count(|c| matches!(c, Call::Replay(n) if *n > 20)), 1, "{calls:?}");
        // Two inputs, the logits, the token's rows, and where those go.
        assert!(count(|c| matches!(c, Call::Launch { .. } | Call::Copy { .. })) <= 5, "{calls:?}");
    }
}
