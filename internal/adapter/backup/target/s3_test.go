package target

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
)

// TestAnUploadThatWasCutOffIsAHalfFile: a host whose power is cut leaves parts that a bucket keeps, and
// that no list of objects shows.
func TestAnUploadThatWasCutOffIsAHalfFile(t *testing.T) {
	refuses := false
	where := s3Target(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, uploads := r.URL.Query()["uploads"]; uploads && r.Method == http.MethodGet && refuses {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	to, err := Open(t.Context(), where)
	must(t, err)
	defer func() { _ = to.Close() }()
	text, _ := contents(1000)
	must(t, to.Put(t.Context(), "a/cp-1/1.json", bytes.NewReader(text), 1000))
	for _, name := range []string{"a/cp-1/2.tar.age", "a/cp-1/2.tar.age", "a/cp-10/2.tar.age"} {
		core := minio.Core{Client: to.(*bucket).plain} //nolint:forcetypeassert // it is one
		id, err := core.NewMultipartUpload(t.Context(), "backups", "shops/"+name, minio.PutObjectOptions{})
		must(t, err)
		_, err = core.PutObjectPart(t.Context(), "backups", "shops/"+name, id, 1, bytes.NewReader(text), 1000, minio.PutObjectPartOptions{})
		must(t, err)
	}
	want := func(want ...string) {
		t.Helper()
		files, err := List(t.Context(), to, "a/cp-1", Limits{Idle: time.Minute})
		must(t, err)
		if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
			t.Errorf("there are %q, want %q", got, want)
		}
	}
	want("a/cp-1/1.json", "a/cp-1/2.tar.age.part")
	refuses = true
	want("a/cp-1/1.json")
	refuses = false
	must(t, to.Remove(t.Context(), "a/cp-1/2.tar.age.part"))
	must(t, to.Remove(t.Context(), "a/cp-1/2.tar.age.part"))
	want("a/cp-1/1.json")
}
