package parts_test

import (
	"testing"

	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/model/workload"
)

// TestWhichPodsOfAPartDoNotRun: each of image, template, number and availability counts, and
// what is not known is never taken for good.
func TestWhichPodsOfAPartDoNotRun(t *testing.T) {
	release := gate.Release{Images: map[string]string{payload.ImageFlannel: "flannel:2", payload.ImageCoreDNS: "coredns:2", payload.ImageKubeProxy: "proxy:2", payload.ImageRouter: "traefik:2"}}
	good := func(image string) parts.Workload {
		return parts.Workload{Pods: workload.Pods{Wanted: 2, Available: 2, Updated: 2, Image: image}}
	}
	for _, c := range []struct {
		what, part string
		change     func(*parts.Workloads, *parts.Workload)
		want       state.Fact[string]
	}{
		{"all run", parts.Objects, nil, state.Known("")},
		{"all run", parts.KubeProxy, nil, state.Known("")},
		{"all run", parts.Operator, nil, state.Known("")},
		{"a part of another release", "colours", nil, state.Known("")},
		{"the image of the old release", parts.KubeProxy, func(w *parts.Workloads, _ *parts.Workload) { w.Proxy.Value.Image = "proxy:1" }, state.Known("kube-proxy: its image is proxy:1, and the release has proxy:2")},
		{"a controller that has not looked", parts.KubeProxy, func(w *parts.Workloads, _ *parts.Workload) { w.Proxy.Value.Unseen = true }, state.Known("kube-proxy: Kubernetes has not begun to replace its pods")},
		{"one pod of the old template", parts.KubeProxy, func(w *parts.Workloads, _ *parts.Workload) { w.Proxy.Value.Updated = 1 }, state.Known("kube-proxy: 1 of 2 pods are of the present version")},
		{"one pod of the old template, and one that crashes", parts.KubeProxy, func(w *parts.Workloads, _ *parts.Workload) { w.Proxy.Value.Updated, w.Proxy.Value.Available = 1, 1 }, state.Known("kube-proxy: 1 of 2 pods are of the present version, and kube-proxy: 1 of 2 pods are available")},
		{"one pod crashes", parts.Objects, func(w *parts.Workloads, _ *parts.Workload) { w.DNS.Value.Available = 1 }, state.Known("DNS: 1 of 2 pods are available")},
		{"both crash", parts.Objects, func(w *parts.Workloads, _ *parts.Workload) { w.DNS.Value.Available, w.Network.Value.Available = 1, 0 }, state.Known("the pod network: 0 of 2 pods are available; DNS: 1 of 2 pods are available")},
		{"its pods run, and lead nowhere", parts.Objects, func(w *parts.Workloads, _ *parts.Workload) { w.Network.Value.Denied = "no pod answers" }, state.Known("the pod network: no pod answers")},
		{"one is not known", parts.Objects, func(w *parts.Workloads, _ *parts.Workload) { w.Network = state.Fact[parts.Workload]{} }, state.Fact[string]{}},
		{"the other one is not known", parts.Objects, func(w *parts.Workloads, _ *parts.Workload) { w.DNS = state.Fact[parts.Workload]{} }, state.Fact[string]{}},
		{"one is not known, and the other one crashes", parts.Objects, func(w *parts.Workloads, _ *parts.Workload) {
			w.Network, w.DNS.Value.Available = state.Fact[parts.Workload]{}, 1
		}, state.Known("DNS: 1 of 2 pods are available")},
		{"routers are not known", parts.Operator, func(w *parts.Workloads, _ *parts.Workload) { w.Routers = state.Fact[map[string]parts.Workload]{} }, state.Fact[string]{}},
		{"a router of before is left", parts.Operator, func(_ *parts.Workloads, r *parts.Workload) { r.Old = 1 }, state.Known("routers of default: 1 pods of the former version are left")},
		{"a router has no host, and the others are enough", parts.Operator, func(_ *parts.Workloads, r *parts.Workload) { r.Available, r.Enough = 1, true }, state.Known("")},
		{"a router denies all hosts", parts.Operator, func(_ *parts.Workloads, r *parts.Workload) { r.Denied = "router-1 answers 404" }, state.Known("routers of default: router-1 answers 404")},
		{"a router crashes", parts.Operator, func(_ *parts.Workloads, r *parts.Workload) { r.Available = 1 }, state.Known("routers of default: 1 of 2 pods are available")},
	} {
		router := good("traefik:2")
		w := parts.Workloads{Network: state.Known(good("flannel:2")), DNS: state.Known(good("coredns:2")), Proxy: state.Known(good("proxy:2"))}
		w.Routers = state.Known(map[string]parts.Workload{})
		if c.change != nil {
			c.change(&w, &router)
		}
		if w.Routers.Known {
			w.Routers.Value["default"] = router
		}
		if got := w.Pending(c.part, release); got != c.want {
			t.Errorf("%s: %s: %+v, want %+v", c.part, c.what, got, c.want)
		}
	}
	old := parts.Workloads{Proxy: state.Known(good("anything"))}
	if got := old.Pending(parts.KubeProxy, gate.Release{}); got != state.Known("") {
		t.Errorf("a release that does not tell its images: %+v", got)
	}
}
