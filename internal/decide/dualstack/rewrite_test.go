package dualstack

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/config"
)

const manager = `spec:
  containers:
  - command:
    - kube-controller-manager
    - --cluster-cidr=10.128.0.0/14
    - --service-cluster-ip-range=172.30.0.0/16
    - --node-cidr-mask-size=23
    - --profiling=false # somebody's note
`

func TestAManifestGetsTheSecondFamilyOnce(t *testing.T) {
	want := replaced(manager, "10.128.0.0/14", "10.128.0.0/14,fd44::/56", "172.30.0.0/16", "172.30.0.0/16,fd96::/112",
		"- --node-cidr-mask-size=23", "- --node-cidr-mask-size-ipv4=23\n    - --node-cidr-mask-size-ipv6=64")
	for _, have := range []string{manager, want} {
		got, err := Manager([]byte(have), *thePlan)
		if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
			t.Error(err, diff)
		}
	}
	six := replaced(manager, "10.128.0.0/14", "fd44::/56", "172.30.0.0/16", "fd96::/112", "=23", "=64")
	four := Plan{Pods: config.ClusterNetworkEntry{CIDR: "10.128.0.0/14", HostPrefix: 23}, Services: "172.30.0.0/16"}
	got, err := Manager([]byte(six), four)
	if err != nil || !strings.Contains(string(got), "    - --node-cidr-mask-size-ipv6=64\n    - --node-cidr-mask-size-ipv4=23\n") {
		t.Errorf("%s %v", got, err)
	}
	server, err := Server([]byte("    - --service-cluster-ip-range=172.30.0.0/16\n"), *thePlan)
	if err != nil || string(server) != "    - --service-cluster-ip-range=172.30.0.0/16,fd96::/112\n" {
		t.Errorf("%s %v", server, err)
	}
	for _, bad := range []string{"", replaced(manager, "--node-cidr", "--x"), replaced(manager, "--cluster-cidr", "--x")} {
		if got, err := Manager([]byte(bad), *thePlan); err == nil {
			t.Errorf("%s", got)
		}
	}
}

func TestKubeletGetsBothAddresses(t *testing.T) {
	both := []netip.Addr{netip.MustParseAddr("10.98.0.11"), netip.MustParseAddr("fd98::11")}
	want := `KUBELET_KUBEADM_ARGS="--hostname-override=cp-1 --node-ip=10.98.0.11,fd98::11 --node-labels=holdfast.io/role=master"` + "\n"
	for _, have := range []string{replaced(want, ",fd98::11", ""), want} {
		got, err := NodeIP([]byte(have), both)
		if err != nil || string(got) != want {
			t.Errorf("%s %v", got, err)
		}
	}
	if got, err := NodeIP([]byte("--node-ip=10.98.0.11"), both); err != nil || string(got) != "--node-ip=10.98.0.11,fd98::11" {
		t.Errorf("%s %v", got, err)
	}
	if got, err := NodeIP([]byte("X=y\n"), both); err == nil {
		t.Errorf("%s", got)
	}
}

func TestKubeadmsConfigurationIsRefusedIfItLacksWhatChanges(t *testing.T) {
	for _, text := range []string{
		"", "[", "networking: {podSubnet: 10.0.0.0/8}", "networking: {podSubnet: 10.0.0.0/8, serviceSubnet: 172.30.0.0/16}",
		"networking: {podSubnet: 10.0.0.0/8, serviceSubnet: 172.30.0.0/16}\ncontrollerManager: {extraArgs: [{name: x, value: y}]}",
	} {
		if got, err := Kubeadm(text, *thePlan); err == nil {
			t.Errorf("%q becomes %s", text, got)
		}
	}
}
