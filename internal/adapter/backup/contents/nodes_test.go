package contents_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/holdfast/holdfast/internal/adapter/backup/contents"
	"github.com/holdfast/holdfast/internal/model/state"
)

// docs/facts/loss.md#hard-cases-of-loss, L46: the first host of a restored site asks at these
// addresses whether a host of the former one serves.
func TestL46TheAddressesOfTheFormerControlPlanesAreInTheBackup(t *testing.T) {
	node := func(name, label string, addresses ...string) write {
		o := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: ""}}}
		o.Status.Addresses = append(o.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
		for _, a := range addresses {
			o.Status.Addresses = append(o.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
		}
		data, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), o)
		if err != nil {
			t.Fatal(err)
		}
		return write{key: "/registry/minions/" + name, value: string(data)}
	}
	s, err := contents.Open(t.Context(), database(t,
		node("cp-1", state.LabelControlPlane, "10.98.0.11", "fd98::11"),
		node("cp-2", state.LabelControlPlane, "10.98.0.12"),
		node("w-1", "node-role.kubernetes.io/worker", "10.98.0.31"),
		write{key: "/registry/minions/cp-3", value: "k8s\x00 nonsense"},
	))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	got, unread, err := s.ControlPlanes(t.Context(), contents.Keys{})
	want := []netip.Addr{netip.MustParseAddr("10.98.0.11"), netip.MustParseAddr("fd98::11"), netip.MustParseAddr("10.98.0.12")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if len(unread) != 1 || !strings.HasPrefix(unread[0], "the addresses of cp-3: ") {
		t.Errorf("unread: %q", unread)
	}
}
