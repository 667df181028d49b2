//! Which addresses messages may be sent to.
//!
//! A policy names any host, and the controller reaches hosts that its author does not: other
//! services of the cluster, and the metadata service of the machine, which gives credentials to
//! whoever asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A kind of address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressClass {
    /// Of the internet.
    Public,
    /// Of this machine, the cluster or the company.
    Private,
    /// No sink is there: link-local and metadata addresses, broadcasts, and ranges that are
    /// reserved.
    Never,
}

/// Metadata services with addresses that are not link-local: of Azure, Alibaba Cloud and AWS.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Why nothing is sent to an address; `None` when it may be.
pub fn address_refusal(address: IpAddr, is_encrypted: bool, allow_private: bool) -> Option<String> {
    match (class(address), is_encrypted) {
        (AddressClass::Never, _) => Some(format!(
            "{address} is a link-local, metadata or reserved address, to which nothing is sent"
        )),
        (AddressClass::Private, _) if !allow_private => Some(format!(
            "{address} is a private address, which only --allow-private-sinks permits"
        )),
        (AddressClass::Public, false) => {
            Some(format!("{address} is a public address, which needs https"))
        }
        (AddressClass::Private | AddressClass::Public, _) => None,
    }
}

/// The kind of an address. One that contains an IPv4 address is of its kind.
pub(crate) fn class(address: IpAddr) -> AddressClass {
    if METADATA.contains(&address) {
        return AddressClass::Never;
    }
    match address {
        IpAddr::V4(address) => of_v4(address),
        IpAddr::V6(address) => of_v6(address),
    }
}

fn of_v4(address: Ipv4Addr) -> AddressClass {
    match address.octets() {
        [0 | 224..=255, ..] | [169, 254, ..] => AddressClass::Never,
        // Of protocols, documentation and benchmarks.
        [192, 0, 0 | 2, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] => {
            AddressClass::Never
        }
        [10 | 127, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => {
            AddressClass::Private
        }
        _ => AddressClass::Public,
    }
}

fn of_v6(address: Ipv6Addr) -> AddressClass {
    if address == Ipv6Addr::LOCALHOST {
        return AddressClass::Private;
    }
    let segments = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        class(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
    };
    match segments {
        // Compatible with, mapped to, and translated to IPv4.
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            v4(high, low)
        }
        // 6to4.
        [0x2002, high, low, ..] => v4(high, low),
        [0xfc00..=0xfdff, ..] => AddressClass::Private,
        // Teredo, other protocols, and documentation.
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, ..] => AddressClass::Never,
        [0x2000..=0x3fff, ..] => AddressClass::Public,
        // Only these are of the internet: the rest is link-local, multicast, or reserved.
        _ => AddressClass::Never,
    }
}
