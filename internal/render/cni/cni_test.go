package cni

import (
	"net/netip"
	"testing"

	"github.com/holdfast/holdfast/internal/testkit/golden"
)

func TestConfMatchesTheApprovedFile(t *testing.T) {
	for name, env := range map[string]string{
		"v4.conflist":   "FLANNEL_NETWORK=10.128.0.0/14\nFLANNEL_SUBNET=10.128.2.1/23\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
		"v6.conflist":   "FLANNEL_IPV6_NETWORK=fd44::/56\nFLANNEL_IPV6_SUBNET=fd44:0:0:1::1/64\nFLANNEL_MTU=1430\n",
		"dual.conflist": "FLANNEL_SUBNET=10.128.2.1/23\nFLANNEL_IPV6_SUBNET=fd44:0:0:1::1/64\nFLANNEL_MTU=1430\n",
	} {
		t.Run(name, func(t *testing.T) {
			lease, err := ParseLease([]byte(env))
			if err != nil {
				t.Fatal(err)
			}
			got, err := File(lease)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, got.Data)
		})
	}
}

// CIS 1.1.9: everybody could read the file.
func TestTheFileOfThePodNetworkIsForRootAlone(t *testing.T) {
	f, err := File(Lease{Subnets: []netip.Prefix{netip.MustParsePrefix("10.128.2.0/23")}, MTU: 1450})
	if err != nil || f.Path != ConfPath || f.Perm() != 0o600 {
		t.Errorf("%s has mode %04o: %v", f.Path, f.Perm(), err)
	}
}

func TestAHalfWrittenLeaseIsNoLease(t *testing.T) {
	for _, env := range []string{"", "FLANNEL_SUBNET=10.128.2.1/23\n", "FLANNEL_MTU=1450\n", "FLANNEL_SUBNET=10.128.2\nFLANNEL_MTU=1450\n", "FLANNEL_SUBNET=10.128.2.1/23\nFLANNEL_MTU=14x\n"} {
		if lease, err := ParseLease([]byte(env)); err == nil {
			t.Errorf("%q gave %+v", env, lease)
		}
	}
}
