// Package etcdpod reads the pod manifest that etcd on one of two hosts runs
// from, and knows where that etcd listens. It knows nothing of Kubernetes:
// what reads the manifest has to start in milliseconds.
package etcdpod

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"slices"
)

// Advertised is the flag by which peers are told where a member is.
const Advertised = "--initial-advertise-peer-urls="

// DigestOf tells one bundle of authorities from another.
func DigestOf(bundle []byte) string {
	hash := sha256.Sum256(bundle)
	return hex.EncodeToString(hash[:])
}

// PeerURL is where a member's peer finds it.
func PeerURL(a netip.Addr) string { return url("https", a, 2380) }

// ClientURL is where clients on other hosts find it.
func ClientURL(a netip.Addr) string { return url("https", a, 2379) }

// LocalURL is where clients on the host itself find etcd. It is where kubeadm's
// API server asks, which is ::1 on a host with an IPv6 address.
func LocalURL(a netip.Addr) string { return url("https", loopback(a), 2379) }

// ListenURLs are where etcd listens for clients.
func ListenURLs(a netip.Addr) []string { return append(local("https", 2379, a), ClientURL(a)) }

// MetricsURLs are where etcd tells its metrics.
func MetricsURLs(a netip.Addr) []string { return local("http", 2381, a) }

func loopback(a netip.Addr) netip.Addr {
	if a.Unmap().Is6() {
		return netip.IPv6Loopback()
	}
	return loopback4
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// local are the addresses of the host alone: 127.0.0.1 on every host, so that a
// person need not know the family.
func local(scheme string, port uint16, a netip.Addr) []string {
	return slices.Compact([]string{url(scheme, loopback4, port), url(scheme, loopback(a), port)})
}

func url(scheme string, a netip.Addr, port uint16) string {
	return scheme + "://" + netip.AddrPortFrom(a.Unmap(), port).String()
}
