package apiserver_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/apiserver"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// An API server loads its file of keys without a restart and reports that. Then
// all stored objects are rewritten with the first key, and their contents do not
// change. The server checks its file once a minute.
func TestAnAPIServerTakesNewKeysInAndAllIsWrittenAnew(t *testing.T) {
	a := apitest.Need(t, api)
	secrets := client(t, "").CoreV1().Secrets("default")
	before := map[string]*corev1.Secret{}
	for i := range 3 {
		made, err := secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rotated-%d", i)}, Immutable: new(i == 0),
			StringData: map[string]string{"password": "hush"},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before[made.Name] = made
	}
	file, err := apiserver.Encryption(root, []int{2, 1})
	if err != nil {
		t.Fatal(err)
	}
	file = apiserver.Keeping(file) // the API server passes the comment over
	if _, err := host.WriteFiles(a.Folder, []state.File{file}); err != nil {
		t.Fatal(err)
	}
	conf := clientcmdapi.NewConfig()
	conf.Clusters["it"] = &clientcmdapi.Cluster{Server: a.Config.Host, InsecureSkipTLSVerify: true}
	conf.AuthInfos["it"] = &clientcmdapi.AuthInfo{Token: a.Config.BearerToken}
	conf.Contexts["it"] = &clientcmdapi.Context{Cluster: "it", AuthInfo: "it"}
	conf.CurrentContext = "it"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*conf, path); err != nil {
		t.Fatal(err)
	}
	c, err := kube.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.LoadedEncryption(t.Context())
	if err != nil || first == "" {
		t.Fatalf("the digest of its first file is %q: %v", first, err)
	}
	want := fmt.Sprintf("sha256:%x", sha256.Sum256(file.Data))
	for end := time.Now().Add(3 * time.Minute); ; {
		got, err := c.LoadedEncryption(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got == want {
			break
		}
		if time.Now().After(end) || host.Sleep(t.Context(), time.Second) != nil {
			t.Fatal("the API server does not say that it has the new file")
		}
	}
	if !bytes.HasPrefix(stored(t, "/registry/secrets/default/rotated-1"), []byte("k8s:enc:secretbox:v1:holdfast-1:")) {
		t.Fatal("it was written anew before its time")
	}
	r, err := kube.OpenRewriter(kube.Access{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range apiserver.Encrypted {
		n, err := r.Rewrite(t.Context(), kind)
		if err != nil || kind == "secrets" && n < 3 {
			t.Errorf("%d %s: %v", n, kind, err)
		}
	}
	for name, was := range before {
		if value := stored(t, "/registry/secrets/default/"+name); !bytes.HasPrefix(value, []byte("k8s:enc:secretbox:v1:holdfast-2:")) {
			t.Errorf("%s begins %.40q", name, value)
		}
		now, err := secrets.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		was.ResourceVersion, now.ResourceVersion = "", ""
		if was.String() != now.String() {
			t.Errorf("%s changed: %v, was %v", name, now, was)
		}
	}
	if n, err := r.Rewrite(t.Context(), "nothings.example.test"); err != nil || n != 0 {
		t.Errorf("a kind that the cluster does not know: %d %v", n, err)
	}
}
