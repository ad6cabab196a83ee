// Package etcdpod reads the pod manifest from which etcd runs on one of two
// hosts, and knows the addresses of that etcd. It imports nothing of Kubernetes:
// programs that read the manifest have to start in milliseconds.
package etcdpod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"net/netip"
	"slices"
	"strings"
)

// Advertised is the flag with the address that etcd gives to its peers.
const Advertised = "--initial-advertise-peer-urls="

// DigestOf returns a digest that tells one bundle of authorities from another. The
// order of the authorities does not matter: etcd need not read it.
func DigestOf(bundle []byte) string {
	var blocks []string
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		blocks = append(blocks, string(pem.EncodeToMemory(block)))
	}
	if len(blocks) > 1 {
		slices.Sort(blocks)
		bundle = []byte(strings.Join(blocks, ""))
	}
	hash := sha256.Sum256(bundle)
	return hex.EncodeToString(hash[:])
}

// PeerURL returns the URL at which a member's peer reaches it.
func PeerURL(a netip.Addr) string { return url("https", a, 2380) }

// ClientURL returns the URL at which clients on other hosts reach it.
func ClientURL(a netip.Addr) string { return url("https", a, 2379) }

// LocalURL returns the URL at which clients on the host itself reach etcd.
// kubeadm's API server uses it; on a host with an IPv6 address it is ::1.
func LocalURL(a netip.Addr) string { return url("https", loopback(a), 2379) }

// ListenURLs returns the URLs at which etcd listens for clients.
func ListenURLs(a netip.Addr) []string { return append(local("https", 2379, a), ClientURL(a)) }

// MetricsURLs returns the URLs at which etcd serves its metrics.
func MetricsURLs(a netip.Addr) []string { return local("http", 2381, a) }

func loopback(a netip.Addr) netip.Addr {
	if a.Unmap().Is6() {
		return netip.IPv6Loopback()
	}
	return loopback4
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// local returns the URLs that only the host itself reaches. They include
// 127.0.0.1 on every host, so that a person need not know the family.
func local(scheme string, port uint16, a netip.Addr) []string {
	return slices.Compact([]string{url(scheme, loopback4, port), url(scheme, loopback(a), port)})
}

func url(scheme string, a netip.Addr, port uint16) string {
	return scheme + "://" + netip.AddrPortFrom(a.Unmap(), port).String()
}
