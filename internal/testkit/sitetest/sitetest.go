// Package sitetest makes complete sites for tests: parsed configurations with a
// fixed identity, so that golden files stay the same.
package sitetest

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
)

// Created is the time at which the sites' keys were made.
var Created = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// Configurations of sites, named after the lab's shapes.
const (
	OneNone = `apiVersion: v1
metadata: {name: shop}
baseDomain: example.test
controlPlane: {replicas: 1}
compute: [{name: worker, replicas: 2}]
networking: {machineNetwork: [{cidr: 10.98.0.0/24}]}
rendezvousIP: 10.98.0.11
platform: {none: {}}
`
	TwoDual = `apiVersion: v1
metadata: {name: shop}
baseDomain: example.test
controlPlane:
  replicas: 2
  fencing:
    credentials:
    - {hostname: cp-1, address: "https://10.99.0.111/redfish/v1/Systems/1", username: admin, password: hush-1}
    - {hostname: cp-2, address: "https://10.99.0.112/redfish/v1/Systems/1", username: admin, password: hush-2}
networking:
  machineNetwork: [{cidr: 10.98.0.0/24}, {cidr: "fd98::/64"}]
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}, {cidr: "fd44::/56", hostPrefix: 64}]
  serviceNetwork: [172.30.0.0/16, "fd96::/112"]
platform:
  baremetal:
    apiVIPs: [10.98.0.5, "fd98::5"]
    ingressVIPs: [10.98.0.6, "fd98::6"]
`
	ThreeV6 = `apiVersion: v1
metadata: {name: shop}
baseDomain: example.test
controlPlane: {replicas: 3}
compute: [{name: worker, replicas: 1}]
networking:
  machineNetwork: [{cidr: "fd98::/64"}]
  clusterNetwork: [{cidr: "fd44::/56", hostPrefix: 64}]
  serviceNetwork: ["fd96::/112"]
platform:
  baremetal:
    apiVIPs: ["fd98::5"]
    ingressVIPs: ["fd98::6"]
`
)

// generated makes the keys once for all tests of a process.
var generated = sync.OnceValues(func() (site.Identity, error) { return keys.Generate(Created, rand.Reader) })

// New returns the site of a configuration. Its tokens are fixed; its keys are
// real and differ from run to run.
func New(t testing.TB, text string) *site.Site {
	t.Helper()
	cfg, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	id, err := generated()
	if err != nil {
		t.Fatal(err)
	}
	id.ClusterID = "00000000-0000-4000-8000-000000000000"
	id.ProgressToken = "progress-secret"
	id.JoinKey = []byte("0123456789abcdef0123456789abcdef")
	id.EncryptionRoot = []byte("encrypts-encrypts-encrypts-encry")
	return &site.Site{Config: cfg, Identity: id}
}
