package contents_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"golang.org/x/crypto/nacl/secretbox"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/holdfast/holdfast/internal/adapter/backup/contents"
	"github.com/holdfast/holdfast/internal/render/apiserver"
)

// write is one revision of a database.
type write struct {
	key, value string
	deleted    bool
}

// database writes a database as etcd does, with one revision for each write, and returns its file.
func database(t *testing.T, writes ...write) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.db")
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		meta, err := tx.CreateBucket([]byte("meta"))
		if err != nil {
			return err
		}
		errs := []error{meta.Put([]byte("finishedCompactRev"), revision(3, false))}
		for i, w := range writes {
			n := int64(i + 5)
			kv := mvccpb.KeyValue{Key: []byte(w.key), Value: []byte(w.value), ModRevision: n, CreateRevision: n, Version: 1, Lease: 7}
			if w.deleted {
				kv = mvccpb.KeyValue{Key: []byte(w.key)}
			}
			data, err := kv.Marshal()
			errs = append(errs, err, keys.Put(revision(n, w.deleted), data))
		}
		return errors.Join(errs...)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func revision(n int64, deleted bool) []byte {
	out := binary.BigEndian.AppendUint64(nil, uint64(n))
	out = binary.BigEndian.AppendUint64(append(out, '_'), 0)
	if deleted {
		out = append(out, 't')
	}
	return out
}

// configMap returns the stored value of a ConfigMap.
func configMap(t *testing.T, name, value string) string {
	t.Helper()
	o := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"}, Data: map[string]string{"a": value}}
	data, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// read reads all objects of a database.
func read(t *testing.T, path string, keys contents.Keys) (contents.Found, contents.Stats) {
	t.Helper()
	s, err := contents.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	found, err := s.Read(t.Context(), keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return found, s.Stats()
}

func TestTheNewestRevisionOfEachKeyThatWasNotDeletedIsRead(t *testing.T) {
	const at = "/registry/configmaps/shop/"
	found, stats := read(t, database(t,
		write{key: at + "kept", value: configMap(t, "kept", "old")},
		write{key: at + "gone", value: configMap(t, "gone", "x")},
		write{key: at + "again", value: configMap(t, "again", "old")},
		write{key: at + "gone", deleted: true},
		write{key: at + "again", deleted: true},
		write{key: at + "kept", value: configMap(t, "kept", "new")},
		write{key: at + "again", value: configMap(t, "again", "new")},
		write{key: "/registry/masterleases/192.0.2.1", value: "x"},
		write{key: "compact_rev_key", value: "1"},
	), contents.Keys{})
	var got strings.Builder
	for _, o := range found.Objects {
		fmt.Fprintf(&got, "%s %v rev %d %v; ", o.ID(), o.Content["data"], o.Revision, o.Content["metadata"])
	}
	const want = "configmaps shop/again map[a:new] rev 11 map[name:again namespace:shop resourceVersion:11]; configmaps shop/kept map[a:new] rev 10 map[name:kept namespace:shop resourceVersion:10]; "
	if got.String() != want {
		t.Errorf("read %s", got.String())
	}
	if stats.Revision != 13 || stats.Compacted != 3 || stats.Keys != 4 || stats.Revisions != 9 || found.Internal != 1 || found.Foreign != 1 || len(found.Unread) > 0 {
		t.Errorf("%+v %+v", stats, found)
	}
}

// TestADefinitionIsReadInTheVersionThatTheAPIServes: API servers store it in an older one.
func TestADefinitionIsReadInTheVersionThatTheAPIServes(t *testing.T) {
	found, _ := read(t, database(t, write{key: "/registry/apiextensions.k8s.io/customresourcedefinitions/tills.example.com", value: `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1",
"metadata":{"name":"tills.example.com"},"spec":{"group":"example.com","version":"v1","names":{"plural":"tills","kind":"Till"},"scope":"Namespaced","validation":{"openAPIV3Schema":{"type":"object"}},"versions":[{"name":"v1","served":true,"storage":true}]}}`}), contents.Keys{})
	if len(found.Objects) != 1 || !strings.Contains(fmt.Sprint(found.Objects[0].Content), "versions:[map[name:v1 schema:map[openAPIV3Schema:map[type:object]]") || found.Objects[0].Version != "v1" {
		t.Errorf("%+v", found)
	}
}

func TestWhatCannotBeReadIsNamedWithItsReasonAndWithoutItsValue(t *testing.T) {
	unknown := strings.Replace(configMap(t, "a", "S3cr3t"), "ConfigMap", "OtherKind", 1)
	found, _ := read(t, database(t,
		write{key: "/registry/a/shop/1", value: `{"S3cr3t`},
		write{key: "/registry/a/shop/2", value: "S3cr3t"},
		write{key: "/registry/a/shop/3", value: "k8s\x00S3cr3t"},
		write{key: "/registry/a/shop/4", value: unknown},
		write{key: "/registry/a/shop/5", value: "k8s:enc:aescbc:v1:key1:S3cr3t"},
		write{key: "/registry/a/shop/6", value: "k8s:enc:secretbox:v1:holdfast-9:" + strings.Repeat("S3cr3t", 9)},
		write{key: "/registry/a/shop/7", value: "k8s:enc:secretbox:v1:S3cr3t"},
		write{key: "/registry/a/shop/8", value: ""},
	), contents.Keys{})
	var got strings.Builder
	for _, u := range found.Unread {
		fmt.Fprintf(&got, "%s %s\n", strings.TrimPrefix(u.Key, "/registry/a/shop/"), u.Why)
	}
	const want = `1 it is no JSON
2 it is neither protobuf nor JSON of Kubernetes
3 it is no protobuf of Kubernetes
4 this build does not know the kind OtherKind of v1
5 it is encrypted by "aescbc", which this build does not read
6 it is encrypted with the key "holdfast-9", which the backup does not have
7 it is encrypted, and ends early
8 it is neither protobuf nor JSON of Kubernetes
`
	if got.String() != want || len(found.Objects) > 0 {
		t.Errorf("read %d objects and not:\n%s", len(found.Objects), got.String())
	}
}

// TestAFieldThatThisBuildDoesNotKnowIsNoticed adds a field with a number that no version has.
func TestAFieldThatThisBuildDoesNotKnowIsNoticed(t *testing.T) {
	value := configMap(t, "a", "b")
	// runtime.Unknown has the object as its field 2: its length stands behind the tag.
	i := strings.Index(value, "\x12") + 0
	for ; value[i] != 0x12 || int(value[i+1]) != len(value)-i-2-len("\x1a\x00\x22\x00"); i++ {
		if i+2 >= len(value) {
			t.Fatal("the value has another form")
		}
	}
	end := len(value) - len("\x1a\x00\x22\x00")
	more := value[:i+1] + string(rune(value[i+1]+3)) + value[i+2:end] + "\xf8\x3f\x01" + value[end:]
	for text, partial := range map[string]bool{value: false, more: true} {
		found, _ := read(t, database(t, write{key: "/registry/configmaps/shop/a", value: text}), contents.Keys{})
		if len(found.Objects) != 1 || found.Objects[0].Partial != partial {
			t.Errorf("partial should be %v: %+v", partial, found)
		}
	}
}

func TestASecretOpensWithTheKeysOfTheBackup(t *testing.T) {
	root := []byte("0123456789abcdef0123456789abcdef")
	file, err := apiserver.Encryption(root, []int{3})
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(file.Data), "secret: ")
	text, _, _ = strings.Cut(text, "\n")
	seal := func(value string) string {
		var key [32]byte
		keyOf(t, strings.TrimSpace(text), &key)
		var nonce [24]byte
		return "k8s:enc:secretbox:v1:holdfast-3:" + string(secretbox.Seal(nonce[:], []byte(value), &nonce, &key))
	}
	sealed := seal(configMap(t, "a", "b"))
	site := []byte(`{"encryptionRoot":"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}`)
	for name, c := range map[string]struct {
		files map[string][]byte
		value string
		why   string
	}{
		"the file":         {map[string][]byte{apiserver.EncryptionPath: file.Data}, sealed, ""},
		"the root":         {map[string][]byte{"/etc/holdfast/site.json": site}, sealed, ""},
		"another root":     {map[string][]byte{"/etc/holdfast/site.json": []byte(`{"encryptionRoot":"YWJj"}`)}, sealed, `the key "holdfast-3" of the backup does not open it`},
		"nothing":          {nil, sealed, `it is encrypted with the key "holdfast-3", which the backup does not have`},
		"a flipped bit":    {map[string][]byte{apiserver.EncryptionPath: file.Data}, sealed[:len(sealed)-1] + string(rune(sealed[len(sealed)-1]^1)), `the key "holdfast-3" of the backup does not open it`},
		"what is not ours": {map[string][]byte{apiserver.EncryptionPath: file.Data}, strings.Replace(sealed, "holdfast-3", "mine", 1), `it is encrypted with the key "mine", which the backup does not have`},
	} {
		keys, err := contents.KeysOf(c.files)
		if err != nil {
			t.Fatal(err)
		}
		found, _ := read(t, database(t, write{key: "/registry/configmaps/shop/a", value: c.value}), keys)
		why := ""
		if len(found.Unread) > 0 {
			why = found.Unread[0].Why
		}
		if why != c.why || c.why == "" && (len(found.Objects) != 1 || !found.Objects[0].Encrypted) {
			t.Errorf("%s: %+v", name, found)
		}
	}
	for _, path := range contents.KeyFiles() {
		if _, err := contents.KeysOf(map[string][]byte{path: []byte("S3cr3t: [")}); err == nil || strings.Contains(err.Error(), "S3cr3t") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func keyOf(t *testing.T, text string, key *[32]byte) {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || copy(key[:], data) != len(key) {
		t.Fatalf("%v: %d bytes", err, len(data))
	}
}

func TestADamagedDatabaseIsAnErrorAndNoPanic(t *testing.T) {
	whole, err := os.ReadFile(database(t, write{key: "/registry/configmaps/shop/a", value: configMap(t, "a", strings.Repeat("b", 9000))}))
	if err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.db")
	db, err := bbolt.Open(empty, 0o600, nil)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	none, err := os.ReadFile(empty)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	broken := append([]byte{}, whole...)
	for i := 2 * page; i < len(broken); i++ {
		broken[i] = 0xff
	}
	for name, data := range map[string][]byte{"nothing": {}, "text": []byte("no database"), "cut off": whole[:page], "pages of ones": broken, "no keys": none} {
		path := filepath.Join(t.TempDir(), "snapshot.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := contents.Open(t.Context(), path); err == nil {
			_ = s.Close()
			t.Errorf("%s: no error", name)
		} else if !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheEndOfTheContextEndsTheReading(t *testing.T) {
	s, err := contents.Open(t.Context(), database(t, write{key: "/registry/configmaps/shop/a", value: configMap(t, "a", "b")}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if _, err := s.Read(ctx, contents.Keys{}, nil); !errors.Is(err, why) {
		t.Error(err)
	}
}
