package vips_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/vips"
	"github.com/holdfast/holdfast/internal/model/state"
)

// infrastructure returns the object of a platform with one pair of VIPs in its spec
// and two in its status.
func infrastructure(platform configv1.PlatformType) *configv1.Infrastructure {
	spec := []configv1.IP{"10.98.0.5"}
	in := []configv1.IP{"10.98.0.6"}
	nets := []configv1.CIDR{"10.98.0.0/24"}
	api, ingress := []string{"10.98.0.5", "fd98::5"}, []string{"10.98.0.6", "fd98::6"}
	out := &configv1.Infrastructure{}
	out.Spec.PlatformSpec.Type = platform
	out.Status.PlatformStatus = &configv1.PlatformStatus{Type: platform}
	p, s := &out.Spec.PlatformSpec, out.Status.PlatformStatus
	switch platform { //nolint:exhaustive // the others have no virtual IPs
	case configv1.BareMetalPlatformType:
		p.BareMetal = &configv1.BareMetalPlatformSpec{APIServerInternalIPs: spec, IngressIPs: in, MachineNetworks: nets}
		s.BareMetal = &configv1.BareMetalPlatformStatus{
			APIServerInternalIP: "10.98.0.5", IngressIP: "10.98.0.6", APIServerInternalIPs: api, IngressIPs: ingress, MachineNetworks: nets, //nolint:staticcheck // deprecated, and all that old clusters have
		}
	case configv1.VSpherePlatformType:
		p.VSphere = &configv1.VSpherePlatformSpec{APIServerInternalIPs: spec, IngressIPs: in, MachineNetworks: nets}
		s.VSphere = &configv1.VSpherePlatformStatus{APIServerInternalIPs: api, IngressIPs: ingress, MachineNetworks: nets}
	case configv1.OpenStackPlatformType:
		p.OpenStack = &configv1.OpenStackPlatformSpec{APIServerInternalIPs: spec, IngressIPs: in, MachineNetworks: nets}
		s.OpenStack = &configv1.OpenStackPlatformStatus{APIServerInternalIPs: api, IngressIPs: ingress, MachineNetworks: nets}
	}
	return out
}

// siteBalancer says that the site has a load balancer of its own, or the cluster one.
func siteBalancer(in *configv1.Infrastructure, kind configv1.PlatformLoadBalancerType) {
	s := in.Status.PlatformStatus
	switch {
	case s.BareMetal != nil:
		s.BareMetal.LoadBalancer = &configv1.BareMetalPlatformLoadBalancer{Type: kind}
	case s.VSphere != nil:
		s.VSphere.LoadBalancer = &configv1.VSpherePlatformLoadBalancer{Type: kind}
	case s.OpenStack != nil:
		s.OpenStack.LoadBalancer = &configv1.OpenStackPlatformLoadBalancer{Type: kind}
	}
}

func TestEachPlatformsVIPsAreReadFromItsOwnPartOfTheObject(t *testing.T) {
	spec := vips.Values{API: []string{"10.98.0.5"}, Ingress: []string{"10.98.0.6"}, MachineNetworks: []string{"10.98.0.0/24"}}
	status := vips.Values{API: []string{"10.98.0.5", "fd98::5"}, Ingress: []string{"10.98.0.6", "fd98::6"}, MachineNetworks: spec.MachineNetworks}
	for platform, path := range map[configv1.PlatformType]string{ //nolint:exhaustive // the others are not meant
		configv1.BareMetalPlatformType: "spec.platformSpec.baremetal", configv1.VSpherePlatformType: "spec.platformSpec.vsphere",
		configv1.OpenStackPlatformType: "spec.platformSpec.openstack",
	} {
		in := infrastructure(platform)
		s := vips.SnapshotOf(in, nil, one().Hosts)
		if s.Platform != vips.Platform(platform) || s.Path.String() != path || !s.HasStatus || !s.Spec.Equal(spec) || !s.Status.Equal(status) || len(s.Hosts) != 3 || s.UserManaged {
			t.Errorf("%s: %+v at %s", platform, s, s.Path)
		}
		if legacy := s.LegacyAPI + " " + s.LegacyIngress; (legacy == "10.98.0.5 10.98.0.6") != (platform == configv1.BareMetalPlatformType) {
			t.Errorf("%s: %q", platform, legacy)
		}
		for kind, managed := range map[configv1.PlatformLoadBalancerType]bool{
			configv1.LoadBalancerTypeUserManaged: true, configv1.LoadBalancerTypeOpenShiftManagedDefault: false,
		} {
			siteBalancer(in, kind)
			if got := vips.SnapshotOf(in, nil, nil).UserManaged; got != managed {
				t.Errorf("%s with a balancer %s: %t", platform, kind, got)
			}
		}
		in.Spec.PlatformSpec = configv1.PlatformSpec{Type: platform}
		if s := vips.SnapshotOf(in, nil, nil); !s.HasStatus || len(s.Spec.API) > 0 {
			t.Errorf("%s without a spec: %+v", platform, s)
		}
		in.Status.PlatformStatus = &configv1.PlatformStatus{Type: platform}
		if s := vips.SnapshotOf(in, nil, nil); s.HasStatus || len(s.Status.API) > 0 || s.Path.String() != path {
			t.Errorf("%s without a status: %+v", platform, s)
		}
	}
}

// Nobody changes the status by hand.
func TestThePlatformIsThatOfTheStatusAndBeforeThatOfTheSpec(t *testing.T) {
	for _, c := range []struct{ spec, status, want configv1.PlatformType }{
		{configv1.NonePlatformType, configv1.BareMetalPlatformType, configv1.BareMetalPlatformType},
		{configv1.BareMetalPlatformType, "", configv1.BareMetalPlatformType},
		{configv1.NonePlatformType, "", configv1.NonePlatformType},
	} {
		in := &configv1.Infrastructure{}
		in.Spec.PlatformSpec.Type = c.spec
		in.Status.PlatformStatus = &configv1.PlatformStatus{Type: c.status}
		if got := vips.SnapshotOf(in, nil, nil).Platform; got != vips.Platform(c.want) {
			t.Errorf("%+v: %s", c, got)
		}
		if in.Status.PlatformStatus = nil; vips.SnapshotOf(in, nil, nil).Platform != vips.Platform(c.spec) {
			t.Errorf("%+v, without a status: %s", c, vips.SnapshotOf(in, nil, nil).Platform)
		}
	}
}

func TestTheNetworksOfPodsAndServicesAreKnownOnceTheirObjectIsRead(t *testing.T) {
	in := infrastructure(configv1.BareMetalPlatformType)
	if s := vips.SnapshotOf(in, nil, nil); s.NetworksKnown || s.Cluster != nil || s.Service != nil {
		t.Errorf("%+v", s)
	}
	network := &configv1.Network{Spec: configv1.NetworkSpec{
		ClusterNetwork: []configv1.ClusterNetworkEntry{{CIDR: "10.128.0.0/14"}, {CIDR: "fd44::/56"}}, ServiceNetwork: []string{"172.30.0.0/16"},
	}}
	s := vips.SnapshotOf(in, network, nil)
	if !s.NetworksKnown || !reflect.DeepEqual(s.Cluster, []string{"10.128.0.0/14", "fd44::/56"}) || !reflect.DeepEqual(s.Service, []string{"172.30.0.0/16"}) {
		t.Errorf("%+v", s)
	}
}

func TestWhatANodeSaysOfItsHost(t *testing.T) {
	report, probe := state.VIPReport{VIPs: addrs("10.98.0.5")}, state.VIPProbe{ID: "q", At: noon}
	answer := state.VIPAnswer{ID: "q"}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "cp-1", Labels: map[string]string{state.LabelControlPlane: ""},
		Annotations: map[string]string{
			state.AnnotationVIPs: state.FormatAnnotation(report), state.AnnotationVIPProbe + "me": state.FormatAnnotation(probe),
			state.AnnotationVIPAnswer + "me": state.FormatAnnotation(answer), state.AnnotationVIPProbe + "other": state.FormatAnnotation(state.VIPProbe{ID: "x"}),
		},
	}}
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: "10.98.0.99"},
		{Type: corev1.NodeInternalIP, Address: "::ffff:10.98.0.11"},
		{Type: corev1.NodeInternalIP, Address: "no address"},
		{Type: corev1.NodeInternalIP, Address: "fd98::11"},
	}
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
	}
	h := vips.HostOf(n, "me")
	if h.Name != "cp-1" || !h.ControlPlane || !h.Ready || !reflect.DeepEqual(h.Addresses, addrs("10.98.0.11", "fd98::11")) {
		t.Errorf("%+v", h)
	}
	if !reflect.DeepEqual(h.Report, state.Known(report)) || !h.Probe.Value.At.Equal(noon) || h.Probe.Value.ID != "q" || h.Answer.Value.ID != "q" {
		t.Errorf("%+v", h)
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue}}
	n.Labels = nil
	if h := vips.HostOf(n, "nobody"); h.Ready || h.ControlPlane || h.Probe.Known || h.Answer.Known {
		t.Errorf("%+v", h)
	}
}

func TestWhatASecondPairIsAddedTo(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*vips.Snapshot)
		err    string
	}{
		{"one pair", func(*vips.Snapshot) {}, ""},
		{"the same second pair, wished for already", add("fd98::5", "fd98::6"), "nothing to do"},
		{"another second pair, wished for already", add("fd98::7", "fd98::8"), ""},
		{"another second VIP of ingress", add("fd98::5", "fd98::8"), ""},
		{"another second VIP of the API", add("fd98::7", "fd98::6"), ""},
		{"a second VIP of the API alone", func(s *vips.Snapshot) { s.Spec.API = []string{"10.98.0.5", "fd98::5"} }, ""},
		{"a second VIP of ingress alone", func(s *vips.Snapshot) { s.Spec.Ingress = []string{"10.98.0.6", "fd98::6"} }, ""},
		{"a second pair is there", func(s *vips.Snapshot) { *s = two(); s.Spec, s.Status.Ingress[1] = vips.Values{}, "fd98::66" }, "the cluster already has a second pair, API fd98::5 and ingress fd98::66: remove it first (holdfast vip remove)"},
		{"half of one is there", func(s *vips.Snapshot) { s.Status.API = []string{"10.98.0.5", "fd98::55"} }, "the cluster already has a second pair, API fd98::55 and ingress -: remove it first (holdfast vip remove)"},
		{"the other half is there", func(s *vips.Snapshot) { s.Status.Ingress = []string{"10.98.0.6", "fd98::66", "fd98::67"} }, "the cluster already has a second pair, API - and ingress fd98::66, fd98::67: remove it first (holdfast vip remove)"},
		{"an old cluster has only the older fields", func(s *vips.Snapshot) { s.Spec, s.Status.API, s.Status.Ingress = vips.Values{}, nil, nil }, ""},
		{"no VIP of ingress", func(s *vips.Snapshot) {
			s.Spec, s.Status, s.LegacyIngress = vips.Values{}, vips.Values{API: s.Status.API}, ""
		}, "the cluster has no first pair of virtual IPs to add a second one to"},
		{"no VIP of the API", func(s *vips.Snapshot) {
			s.Spec, s.Status, s.LegacyAPI = vips.Values{}, vips.Values{Ingress: s.Status.Ingress}, ""
		}, "the cluster has no first pair of virtual IPs to add a second one to"},
		{"another platform", func(s *vips.Snapshot) { s.Platform = "None" }, "platform None has no virtual IPs that hosts hold"},
		{"no platform", func(s *vips.Snapshot) { s.Platform = "" }, "platform None has no virtual IPs that hosts hold"},
		{"vSphere", func(s *vips.Snapshot) { s.Platform = vips.VSphere }, "virtual IPs of platform VSphere are not managed by Holdfast: change them at its load balancer"},
		{"OpenStack", func(s *vips.Snapshot) { s.Platform = vips.OpenStack }, "virtual IPs of platform OpenStack are not managed by Holdfast: change them at its load balancer"},
		{"no status", func(s *vips.Snapshot) { s.HasStatus = false }, "the cluster's status has no platform yet: wait until its installation is complete"},
	} {
		s := one()
		c.change(&s)
		got, err := s.WithPair("fd98::5", "fd98::6")
		if c.err != "" {
			if err == nil || err.Error() != c.err {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		want := vips.Values{API: []string{"10.98.0.5", "fd98::5"}, Ingress: []string{"10.98.0.6", "fd98::6"}, MachineNetworks: one().Spec.MachineNetworks}
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func TestWhatASecondPairIsTakenFrom(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*vips.Snapshot)
		none   bool
	}{
		{"two pairs", func(*vips.Snapshot) {}, false},
		{"a second VIP of the API alone", func(s *vips.Snapshot) { s.Spec.Ingress = s.Spec.Ingress[:1] }, false},
		{"a second VIP of ingress alone", func(s *vips.Snapshot) { s.Spec.API = s.Spec.API[:1] }, false},
		{"one pair", func(s *vips.Snapshot) { *s = one() }, true},
	} {
		s := two()
		c.change(&s)
		got, err := s.WithoutPair()
		if c.none {
			if !errors.Is(err, vips.ErrNothingToDo) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if want := one().Spec; err != nil || !got.Equal(want) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	half := two()
	half.Status.Ingress, half.Spec.Ingress, half.LegacyIngress = nil, nil, ""
	if got, err := half.WithoutPair(); err != nil || len(got.API) != 1 || len(got.Ingress) != 0 {
		t.Errorf("no VIP of ingress at all: %+v, %v", got, err)
	}
	half.HasStatus = false
	if _, err := half.WithoutPair(); err == nil {
		t.Error("no status")
	}
}

func TestValuesAreEqualOnlyInAllTheirParts(t *testing.T) {
	for name, change := range map[string]func(*vips.Values){
		"API": func(v *vips.Values) { v.API[0] = "x" }, "ingress": func(v *vips.Values) { v.Ingress[0] = "x" },
		"networks": func(v *vips.Values) { v.MachineNetworks[0] = "x" },
	} {
		v := one().Spec
		w := v.Clone()
		change(&w)
		if v.Equal(w) || !v.Equal(v.Clone()) || v.Equal(one().Spec) == false {
			t.Errorf("%s: %+v, %+v", name, v, w)
		}
	}
}

func TestATroubleLastsFromItsFirstMoment(t *testing.T) {
	first := vips.Trouble{Reason: vips.ReasonRollingOut}.Lasting(vips.Trouble{}, noon)
	same := vips.Trouble{Reason: vips.ReasonRollingOut, Message: "2 of 3 hosts"}.Lasting(first, noon.Add(time.Minute))
	other := vips.Trouble{Reason: vips.ReasonNotAnswering}.Lasting(same, noon.Add(2*time.Minute))
	if !first.Since.Equal(noon) || !same.Since.Equal(noon) || !other.Since.Equal(noon.Add(2*time.Minute)) {
		t.Errorf("%v, %v, %v", first.Since, same.Since, other.Since)
	}
}
