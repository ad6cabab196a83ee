package contents_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/holdfast/holdfast/internal/adapter/backup/contents"
)

func TestTheAccountsOfBMCsAreReadOutOfABackupsDatabase(t *testing.T) {
	account := func(name, password string) string {
		o := &corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-etcd", Name: name},
			Data: map[string][]byte{"username": []byte("admin"), "password": []byte(password)},
		}
		data, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), o)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	const at = "/registry/secrets/openshift-etcd/"
	s, err := contents.Open(t.Context(), database(t,
		write{key: at + "fencing-credentials-cp-1", value: account("fencing-credentials-cp-1", "hush-old")},
		write{key: at + "fencing-credentials-cp-1", value: account("fencing-credentials-cp-1", "hush-1")},
		write{key: at + "fencing-credentials-cp-2", value: account("fencing-credentials-cp-2", "")},
		write{key: at + "fencing-credentials-cp-3", value: "k8s:enc:secretbox:v1:key9:hush-3"},
		write{key: at + "holdfast-backup", value: account("holdfast-backup", "hush-4")},
		write{key: "/registry/secrets/shop/fencing-credentials-x", value: account("x", "hush-5")},
	))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	got, unread, err := s.Passwords(t.Context(), contents.Keys{})
	if err != nil || len(got) != 1 || got["cp-1"].Reveal() != "hush-1" {
		t.Errorf("%d accounts, %v", len(got), err)
	}
	told := strings.Join(unread, "\n")
	if len(unread) != 2 || !strings.Contains(told, "cp-2: no password in Secret openshift-etcd/fencing-credentials-cp-2") || !strings.Contains(told, "cp-3: ") || strings.Contains(told, "hush") {
		t.Errorf("unread:\n%s", told)
	}
}
