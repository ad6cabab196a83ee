package status

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/manifests"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// installed returns an API with all objects of a site, except those that a test
// leaves out.
func installed(t *testing.T, shape string, refuse func(kind string) error, without ...standing.Object) *API {
	t.Helper()
	s := sitetest.New(t, shape)
	files, err := manifests.Render(s.Config, s.Topology())
	must(t, err)
	var there []metav1.PartialObjectMetadata
	objects := objects()
	for _, file := range files {
		var o metav1.PartialObjectMetadata
		must(t, yaml.Unmarshal(file.Data, &o))
		if slices.Contains(without, standing.Object{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}) {
			continue
		}
		there = append(there, o)
		if o.Name == siteConfigName {
			cm := &corev1.ConfigMap{}
			must(t, yaml.Unmarshal(file.Data, cm))
			objects = append(objects, cm)
		}
	}
	for at, names := range kubeadms {
		for _, name := range names {
			if !slices.Contains(without, standing.Object{Kind: at.kind.Kind, Namespace: at.namespace, Name: name}) {
				o := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: at.namespace, Name: name}}
				o.SetGroupVersionKind(at.kind)
				there = append(there, o)
			}
		}
	}
	list := func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		p, partial := list.(*metav1.PartialObjectMetadataList)
		if !partial {
			return c.List(ctx, list, opts...)
		}
		var o client.ListOptions
		o.ApplyOptions(opts)
		if refuse != nil {
			if err := refuse(p.Kind); err != nil {
				return err
			}
		}
		for _, have := range there {
			if have.Kind+"List" == p.Kind && have.Namespace == o.Namespace {
				p.Items = append(p.Items, have)
			}
		}
		return nil
	}
	reader := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{List: list}).Build()
	return &API{Name: "API", Reader: reader, Now: time.Now}
}

func TestWhatTheInstallationPutIntoTheAPIAndSomebodyDeletedIsMissing(t *testing.T) {
	f := installed(t, sitetest.TwoDual, nil).Gather(t.Context())
	if !f.Missing.Known || len(f.Missing.Value) > 0 || f.Sources[0].Failed != "" || len(f.Sources[0].Limits) > 0 {
		t.Fatalf("nothing was deleted: %+v %+v", f.Missing, f.Sources)
	}
	if f.ControlPlanes.Value != 2 || !f.MastersSchedulable.Known || !f.MastersSchedulable.Value {
		t.Errorf("%+v %+v", f.ControlPlanes, f.MastersSchedulable)
	}
	for _, o := range []standing.Object{
		{Kind: "ClusterRole", Name: "holdfast-hosts"},
		{Kind: "Secret", Namespace: "openshift-etcd", Name: "fencing-credentials-cp-2"},
		{Kind: "Namespace", Name: "openshift-etcd"},
		{Kind: "ValidatingAdmissionPolicyBinding", Name: "holdfast-topology"},
		{Kind: "ConfigMap", Namespace: "kube-system", Name: "cluster-config-v1"},
		{Kind: "ConfigMap", Namespace: "kube-system", Name: "kubeadm-config"},
		{Kind: "ConfigMap", Namespace: "kube-public", Name: "cluster-info"},
	} {
		if f := installed(t, sitetest.TwoDual, nil, o).Gather(t.Context()); !slices.Equal(f.Missing.Value, []standing.Object{o}) {
			t.Errorf("%+v is deleted, and missing are %+v", o, f.Missing)
		}
	}
}

func TestAControlPlaneWithoutANodeIsKnownFromTheSite(t *testing.T) {
	api := installed(t, sitetest.TwoDual, nil)
	must(t, api.Reader.(client.Client).Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-2"}}))
	f := api.Gather(t.Context())
	i := slices.IndexFunc(f.Hosts, func(h standing.Host) bool { return h.Name == "cp-2" })
	if i < 0 || !f.Hosts[i].ControlPlane || !slices.Equal(f.Nodes.Value, []string{"cp-1"}) {
		t.Errorf("%+v %+v", f.Hosts, f.Nodes)
	}
}

func TestWhatMayNotBeListedIsNotMissing(t *testing.T) {
	f := installed(t, sitetest.TwoDual, func(kind string) error {
		if kind == "SecretList" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no"))
		}
		return nil
	}).Gather(t.Context())
	if len(f.Missing.Value) > 0 || f.Sources[0].Failed != "" {
		t.Errorf("%+v %+v", f.Missing, f.Sources)
	}
}

// The client never asks which kinds exist, so it must know each of them.
func TestEveryKindOfAnInstallationIsKnown(t *testing.T) {
	mapper := kinds()
	for _, shape := range []string{sitetest.OneNone, sitetest.TwoDual, sitetest.ThreeV6} {
		s := sitetest.New(t, shape)
		wanted, err := rendered(s.Config, s.Topology())
		must(t, err)
		for at := range wanted {
			m, err := mapper.RESTMapping(at.kind.GroupKind(), at.kind.Version)
			if err != nil || (m.Scope.Name() == "namespace") != (at.namespace != "") {
				t.Errorf("%+v: %+v %v", at, m, err)
			}
		}
	}
}

func TestWhoWasTakenOutOfTheClusterIsReadFromItsList(t *testing.T) {
	api := installed(t, sitetest.TwoDual, nil)
	entry, err := retired.Host{Name: "cp-9", When: time.Now(), By: "kim"}.Marshal()
	must(t, err)
	must(t, api.Reader.(client.Client).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: retired.Namespace, Name: retired.ConfigMap}, Data: map[string]string{"cp-9": entry, "cp-8": "{"},
	}))
	f := api.Gather(t.Context())
	if !f.Retired.Known || len(f.Retired.Value) != 1 || !strings.Contains(f.Retired.Value["cp-9"], "by kim") || len(f.Sources[0].Limits) != 1 {
		t.Errorf("%+v %+v", f.Retired, f.Sources)
	}
}

func TestWhatSomebodyDeletedOnAHostIsReadFromItsNode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp-1", Annotations: map[string]string{state.AnnotationDeleted: `[{"what":"x","problem":"x is gone","meaning":"m"}]`}}}
	if got := hostOf(n, time.Now()).Deleted; !got.Known || len(got.Value) != 1 || got.Value[0].Problem != "x is gone" {
		t.Errorf("%+v", got)
	}
	n.Annotations[state.AnnotationDeleted] = "{"
	if got := hostOf(n, time.Now()).Deleted; got.Known {
		t.Errorf("%+v", got)
	}
}

func TestAMemberOfNoControlPlaneIsAStrangerOnceAllAreKnownByName(t *testing.T) {
	looks := map[string]etcd.MemberStatus{"cp-1": {Members: []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}, {ID: 9}}}}
	f := standing.Facts{ControlPlanes: standing.Know(2, "x", time.Now()), Hosts: []standing.Host{{Name: "cp-1", ControlPlane: true}, {Name: "cp-2", ControlPlane: true}}}
	if got := withStrangers(withLag(looks), looks, f)["cp-1"].Strangers; got != "voter 9 (never started)" {
		t.Errorf("%+v", got)
	}
	f.Hosts = f.Hosts[:1]
	if got := withStrangers(withLag(looks), looks, f)["cp-1"].Strangers; got != "" {
		t.Errorf("cp-2, whose name nobody knows now, is a stranger: %+v", got)
	}
}
