package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFlagsAreThoseOfFlannel(t *testing.T) {
	var out bytes.Buffer
	o, err := parse([]string{"--iface=eth0", "--iface=10.0.0.1", "--ip-masq", "--kube-subnet-mgr", "-v=2"}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if !o.masquerade || !slices.Equal(o.interfaces, []string{"eth0", "10.0.0.1"}) || o.subnetFile != "/run/flannel/subnet.env" {
		t.Errorf("options %+v", o)
	}
	for _, args := range [][]string{{"--kube-subnet-mgr=false"}, {"--etcd-endpoints=x"}} {
		if _, err := parse(args, &out); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
	if !strings.Contains(out.String(), "built without etcd") {
		t.Errorf("output %q", out.String())
	}
}

func TestTheLastSubnetsAreRead(t *testing.T) {
	tests := []struct{ name, text, net4, sub4, net6, sub6 string }{
		{"nothing", "", "0.0.0.0/0", "0.0.0.0/0", "::/0", "::/0"},
		{
			"both families", "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.244.1.1/24\nFLANNEL_IPV6_NETWORK=fd44::/56\nFLANNEL_IPV6_SUBNET=fd44:0:0:1::1/64\nFLANNEL_MTU=1450\n",
			"10.244.0.0/16", "10.244.1.0/24", "fd44::/56", "fd44:0:0:1::/64",
		},
		{"a file cut short", "FLANNEL_NETWORK=10.244.0.0/16\nFLANNEL_SUBNET=10.24", "10.244.0.0/16", "0.0.0.0/0", "::/0", "::/0"},
	}
	for _, test := range tests {
		got := parseSubnets([]byte(test.text))
		if got.network4.String() != test.net4 || got.subnet4.String() != test.sub4 || got.network6.String() != test.net6 || got.subnet6.String() != test.sub6 {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	if _, err := readLastSubnets(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("a missing file is an error: %v", err)
	}
}
