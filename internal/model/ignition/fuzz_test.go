package ignition

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"
)

// FuzzContents unpacks any inline resource of a configuration.
func FuzzContents(f *testing.F) {
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	_, _ = zw.Write([]byte("hello")) // a buffer takes everything
	_ = zw.Close()
	sum := sha256.Sum256([]byte("hello"))
	f.Add("data:,hello", "", "sha256-"+hex.EncodeToString(sum[:]))
	f.Add("data:;base64,"+base64.StdEncoding.EncodeToString(packed.Bytes()), "gzip", "sha256-"+hex.EncodeToString(sum[:]))
	f.Add("data:text/plain;charset=utf-8,%ff%", "", "")
	f.Add("https://elsewhere/x", "", "sha512-")
	f.Add("", "gzip", "md5-00")
	f.Fuzz(func(t *testing.T, source, compression, hash string) {
		r := types.Resource{Source: &source}
		if compression != "" {
			r.Compression = &compression
		}
		if hash != "" {
			r.Verification.Hash = &hash
		}
		data, err := Contents(r)
		if err != nil {
			return
		}
		if len(data) > MaxResourceBytes || !Inline(r) {
			t.Errorf("%q gives %d bytes", source, len(data))
		}
		sum := sha256.Sum256(data)
		if source != "" && len(hash) > 7 && hash[:7] == "sha256-" && !equalFold(hash[7:], hex.EncodeToString(sum[:])) {
			t.Errorf("%q is taken for %s", data, hash)
		}
	})
}

func equalFold(a, b string) bool { return bytes.EqualFold([]byte(a), []byte(b)) }
