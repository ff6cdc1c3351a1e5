//! Names for objects of the operating system and of libraries: mutexes, threads, streams.

use super::domain::Domain;
use super::naming::ObjectHandle;
use super::{calls, text};
use crate::abi;
use crate::abi::program::{SLOTS, is_ready};
use crate::abi::resource_kind::ResourceKind;

/// A name of an object; dropping it removes the name.
///
/// ```
/// use nvtx_rs::{Domain, Resource, ResourceKind};
/// let queue = vec![0u8; 16];
/// let _named = Resource::new(Domain::DEFAULT, ResourceKind::POINTER, queue.as_ptr() as u64, "job queue");
/// ```
#[must_use = "the name is taken back when this is dropped"]
#[derive(Debug)]
pub struct Resource(ObjectHandle);

impl Resource {
    /// Names the object with this `identifier`, an address or a number, which is never dereferenced.
    pub fn new(domain: Domain, kind: ResourceKind, identifier: u64, name: &str) -> Self {
        if !is_ready(&SLOTS.core2[abi::core2::RESOURCE_CREATE]) {
            return Self(0.into());
        }
        let handle = text::with_c_str(name, |name| {
            let resource = calls::Resource::new(kind.identifier_type(), identifier, name);
            calls::create_resource(domain.handle(), &resource)
        });
        Self(handle.into())
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        if self.0.value() != 0 {
            calls::destroy_resource(self.0.to_pointer());
        }
    }
}
