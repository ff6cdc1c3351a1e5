//! Short names of kernels: C++ signatures shortened by meaning, not by length.
//!
//! The return type, namespaces, the parameter list and a last `_kernel` are removed. Of template arguments, those that
//! name an operation stay; numbers, `bool`, `std::array`, and builtin types beside a class are removed. A lambda is
//! named after its function. If two kernels of a run would have the same name, both get all arguments, then their
//! parameters, then their whole names.

use range_model::names::joined;
use range_model::stats::{Lean, Named};

/// How much of a signature stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Detail {
    Meaning,
    Arguments,
    Parameters,
}

/// Deeper nesting stays unchanged.
const MOST_DEPTH: usize = 64;

/// The short name of each of these kernels; no two have the same.
pub(crate) fn short_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Named<&'a str, String> {
    let names: Named<&str, ()> = names.into_iter().map(|name| (name, ())).collect();
    let mut short: Named<&str, String> = Named::default();
    let mut taken: Named<String, ()> = Named::default();
    let mut open: Vec<&str> = names.keys().copied().in_vec();
    for detail in [Detail::Meaning, Detail::Arguments, Detail::Parameters] {
        let mut by_short: Named<String, Vec<&str>> = Named::default();
        for name in open.drain(..) {
            by_short.row(shortened(name, detail)).push(name);
        }
        for (text, of) in by_short {
            // Nor the whole name of another one.
            let is_taken = taken.contains_key(&text) || names.contains_key(&&*text) && !of.contains(&&*text);
            match of[..] {
                [name] if !is_taken => {
                    taken.row(text.clone());
                    *short.row(name) = text;
                }
                _ => open.extend(of),
            }
        }
    }
    open.into_iter().for_each(|name| *short.row(name) = name.to_owned());
    short
}

fn shortened(name: &str, detail: Detail) -> String {
    let Some((head, parameters)) = split_parameters(name) else { return name.to_owned() };
    let mut out = qualified(head, detail, 0);
    if let Some(bare) = (detail == Detail::Meaning).then(|| without_kernel(&out)).flatten() {
        out = bare;
    }
    if detail == Detail::Parameters {
        out.push('(');
        out.push_str(&joined(arguments(parameters).iter().map(|part| part_of(part, detail, 0)), ", "));
        out.push(')');
    }
    if out.is_empty() { name.to_owned() } else { out }
}

/// `scale<float>` for `scale_kernel<float>`.
fn without_kernel(short: &str) -> Option<String> {
    let end = short.find('<').unwrap_or(short.len());
    let base = short[..end].strip_suffix("_kernel").filter(|base| !base.is_empty())?;
    Some(format!("{base}{}", &short[end..]))
}

/// The text before the parameter list, and the list without its parentheses; `None` if the name is no signature.
fn split_parameters(name: &str) -> Option<(&str, &str)> {
    let bytes = name.as_bytes();
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' if depth == 0 && at > 0 && !name[at..].starts_with("(anonymous") => {
                let end = name.rfind(')').filter(|end| *end > at)?;
                return Some((&name[..at], &name[at + 1..end]));
            }
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    (depth == 0 && name.contains(['<', ':'])).then_some((name, ""))
}

/// Splits at a separator outside of all brackets.
fn split_outside<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut depth, mut from, mut at) = (Vec::new(), 0_i32, 0, 0);
    while at < text.len() {
        if depth == 0 && text[at..].starts_with(separator) {
            parts.push(&text[from..at]);
            at += separator.len();
            from = at;
            continue;
        }
        match text.as_bytes()[at] {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' if at > 0 && text.as_bytes()[at - 1] == b'-' => {}
            b'>' | b')' | b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += text[at..].chars().next().map_or(1, char::len_utf8);
    }
    parts.push(&text[from..]);
    parts
}

fn arguments(list: &str) -> Vec<&str> {
    split_outside(list, ",").into_iter().map(str::trim).filter(|part| !part.is_empty()).in_vec()
}

/// A name with its scopes: its last part, without a preceding type.
fn qualified(text: &str, detail: Detail, depth: usize) -> String {
    let scopes = split_outside(text, "::");
    // The function around a lambda, and not the call operator of a lambda around it.
    let part = scopes
        .iter()
        .rev()
        .map(|scope| scope.trim())
        .find(|scope| !scope.starts_with('{') && !scope.starts_with("operator()") && !scope.starts_with("const"));
    let Some(part) = part else { return text.to_owned() };
    let part = split_outside(part, " ").into_iter().rev().find(|word| !["const", ""].contains(word)).unwrap_or(part);
    let part = part.trim_end_matches(['&', '*']);
    let bare = split_outside_call(part);
    let is_lambda = scopes.last().is_some_and(|last| last.trim().starts_with('{'));
    let lambda = scopes.last().filter(|_| is_lambda && detail > Detail::Meaning).map_or("", |last| last.trim());
    format!("{}{lambda}", templated(bare, detail, depth))
}

/// The name without the parameter list of a function around a lambda.
fn split_outside_call(part: &str) -> &str {
    split_parameters(part).map_or(part, |(head, _)| head)
}

fn templated(text: &str, detail: Detail, depth: usize) -> String {
    let (Some(from), true) = (text.find('<'), text.ends_with('>')) else { return text.to_owned() };
    if depth > MOST_DEPTH {
        return text.to_owned();
    }
    let all = arguments(&text[from + 1..text.len() - 1]);
    let shown: Vec<String> = if detail == Detail::Meaning {
        let classes: Vec<&str> = all.iter().copied().filter(|part| is_class(part)).in_vec();
        let mut builtin: Vec<&str> = all.iter().copied().filter(|part| is_builtin(part)).in_vec();
        builtin.dedup();
        let named = if classes.is_empty() { builtin } else { classes };
        named.into_iter().map(|part| part_of(part, detail, depth + 1)).in_vec()
    } else {
        all.iter().map(|part| part_of(part, detail, depth + 1)).in_vec()
    };
    if shown.is_empty() { text[..from].to_owned() } else { format!("{}<{}>", &text[..from], joined(shown, ", ")) }
}

/// An argument: a type or a value.
fn part_of(part: &str, detail: Detail, depth: usize) -> String {
    let part = part.trim();
    match part.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        // `(unsigned int)32`
        Some((kind, value)) if is_builtin(kind) && !value.is_empty() => return value.to_owned(),
        _ => {}
    }
    if is_builtin(part) || part.is_empty() { part.to_owned() } else { qualified(part, detail, depth) }
}

fn is_builtin(part: &str) -> bool {
    const WORDS: [&str; 11] =
        ["unsigned", "signed", "long", "int", "short", "char", "float", "double", "void", "const", "bool"];
    let bare = part.trim_end_matches(['*', '&', ' ']);
    !bare.is_empty() && bare.split(' ').all(|word| WORDS.contains(&word))
}

/// Whether it names an operation: neither a value, nor a builtin type, nor a container.
fn is_class(part: &str) -> bool {
    let first = part.chars().next().unwrap_or(' ');
    let is_value = first.is_ascii_digit()
        || first == '-'
        || ["true", "false"].contains(&part)
        || part.split_once('=').is_some_and(|(kind, _)| is_builtin(kind)); // `int=3`, the form of NVIDIA's tools
    let is_cast = part.starts_with('(') && !part.starts_with("(anonymous");
    !is_value && !is_cast && !is_builtin(part) && !part.starts_with("std::array<")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Of GPT-2 under PyTorch 2.11, as the demangler writes them.
    const PYTORCH: [(&str, &str); 15] = [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, \
             at::native::binary_internal::MulFunctor<float> >, std::array<char*, (unsigned long)3> >(int, \
             at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, \
             std::array<char*, (unsigned long)3>)",
            "vectorized_elementwise<BinaryFunctor<MulFunctor<float>>>",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, \
             (unsigned long)1> >(int, at::native::FillFunctor<float>, std::array<char*, (unsigned long)1>)",
            "vectorized_elementwise<FillFunctor<float>>",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<2, at::native::FillFunctor<long>, std::array<char*, \
             (unsigned long)1> >(int, at::native::FillFunctor<long>, std::array<char*, (unsigned long)1>)",
            "vectorized_elementwise<FillFunctor<long>>",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::tanh_kernel_cuda(at::TensorIteratorBase&)\
             ::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, \
             std::array<char*, (unsigned long)2> >(int, at::native::tanh_kernel_cuda(at::TensorIteratorBase&)\
             ::{lambda()#2}::operator()() const::{lambda()#2}::operator()() const::{lambda(float)#1}, \
             std::array<char*, (unsigned long)2>)",
            "vectorized_elementwise<tanh_kernel_cuda>",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, void at::native::(anonymous namespace)\
             ::pow_tensor_scalar_kernel_impl<float, float>(at::TensorIteratorBase&, float)::{lambda(float)#1}, \
             std::array<char*, (unsigned long)2> >(int, void at::native::(anonymous namespace)\
             ::pow_tensor_scalar_kernel_impl<float, float>(at::TensorIteratorBase&, float)::{lambda(float)#1}, \
             std::array<char*, (unsigned long)2>)",
            "vectorized_elementwise_kernel<4, pow_tensor_scalar_kernel_impl<float, float>{lambda(float)#1}, \
             array<char*, 2>>",
        ),
        (
            "void at::native::vectorized_elementwise_kernel<4, void at::native::(anonymous namespace)\
             ::pow_tensor_scalar_kernel_impl<float, float>(at::TensorIteratorBase&, float)::{lambda(float)#2}, \
             std::array<char*, (unsigned long)2> >(int, void at::native::(anonymous namespace)\
             ::pow_tensor_scalar_kernel_impl<float, float>(at::TensorIteratorBase&, float)::{lambda(float)#2}, \
             std::array<char*, (unsigned long)2>)",
            "vectorized_elementwise_kernel<4, pow_tensor_scalar_kernel_impl<float, float>{lambda(float)#2}, \
             array<char*, 2>>",
        ),
        (
            "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, at::native::func_wrapper_t<float, \
             at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)\
             #1}>, unsigned int, float, 4, 4> >(at::native::ReduceOp<float, at::native::func_wrapper_t<float, \
             at::native::sum_functor<float, float, float>::operator()(at::TensorIterator&)::{lambda(float, float)\
             #1}>, unsigned int, float, 4, 4>)",
            "reduce<ReduceOp<func_wrapper_t<sum_functor<float>>>>",
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nt_align4>\
             (cutlass_80_tensorop_s1688gemm_128x128_16x4_nt_align4::Params)",
            "Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nt_align4>",
        ),
        (
            "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)\
             ::TensorListMetadata<3>, at::native::(anonymous namespace)::PointwiseOpScalarFunctor<float, 3, 3, 0>, \
             std::multiplies<float>, float>(at::native::(anonymous namespace)::TensorListMetadata<3>, \
             at::native::(anonymous namespace)::PointwiseOpScalarFunctor<float, 3, 3, 0>, std::multiplies<float>, \
             float)",
            "multi_tensor_apply<TensorListMetadata, PointwiseOpScalarFunctor<float>, multiplies<float>>",
        ),
        (
            "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float, \
             cutlass::arch::Sm80, true, 64, 64, 64, true, true>::Params)",
            "fmha_cutlassF_f32_aligned_64x64_rf_sm80",
        ),
        (
            "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int, float, \
             float const*, float const*, float const*, float*, float*, float*)",
            "vectorized_layer_norm<float>",
        ),
        (
            "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x128x32_warpgroupsize1x1x1_execute_segment_k_off_\
             kernel__5x_cublas",
            "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x128x32_warpgroupsize1x1x1_execute_segment_k_off_\
             kernel__5x_cublas",
        ),
        ("void op_generic_tensor_kernel<int=2, float, float, int=256>(int)", "op_generic_tensor<float>"),
        ("triton_poi_fused_add_tanh_0", "triton_poi_fused_add_tanh_0"),
        ("input_fusion_reduce_3", "input_fusion_reduce_3"),
    ];

    #[test]
    fn names_of_pytorch() {
        let names = short_names(PYTORCH.iter().map(|(name, _)| *name));
        for (name, expected) in PYTORCH {
            assert_eq!(names[&name], expected);
        }
    }

    #[test]
    fn two_kernels_never_share_a_name() {
        let all = ["void f<4>(int)", "void f<4>(float)", "void a::f<4>(long)", "f", "void g<1>()", "void b::g<2>()"];
        let names = short_names(all);
        assert_eq!(names[&"void g<1>()"], "g<1>");
        assert_eq!(names[&"void f<4>(float)"], "f<4>(float)");
        assert_eq!(names[&"f"], "f");
        assert_eq!(names.values().collect::<BTreeSet<_>>().len(), all.len());
    }

    #[test]
    fn what_is_no_signature_stays() {
        for name in ["", "(", "f(", "f<", "a>b", "->", "operator()", "<<<>>>", "f)", "名前<日本>(語)", "a::", "::"]
        {
            let names = short_names([name]);
            assert!(!names[&name].is_empty() || name.is_empty(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_name_of_its_own(names in prop::collection::btree_set("[a-c<>(){}:, *&#é-]{0,24}", 0..20)) {
            let short = short_names(names.iter().map(String::as_str));
            prop_assert_eq!(short.len(), names.len());
            prop_assert_eq!(short.values().collect::<BTreeSet<_>>().len(), names.len());
        }
    }
}
