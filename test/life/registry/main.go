// Command registry is a registry of images that wants a name and a password, or one by
// HTTPS for everybody. It holds one image, of this program itself, which prints a line and
// ends. The tests of mirrors run it on a host of the lab.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

var (
	listen     = flag.String("listen", "", "address and port; without it only the image's digest is printed")
	repository = flag.String("repository", "life/hello", "the image's name")
	account    = flag.String("account", "", "file with NAME:PASSWORD; without it everybody gets the image")
	serving    = flag.String("certificate", "", "file to write a new certificate to, for HTTPS")
	hello      = flag.Bool("hello", false, "print a line and end, as the image does")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	if *hello {
		_, err := fmt.Fprintln(os.Stdout, "hello from the registry")
		return err
	}
	image, err := imageOfThis()
	if err != nil {
		return fmt.Errorf("make the image: %w", err)
	}
	if *listen == "" {
		digest, err := image.Digest()
		if err == nil {
			_, err = fmt.Fprintln(os.Stdout, digest)
		}
		return err
	}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if err := put(images, image); err != nil {
		return fmt.Errorf("put the image: %w", err)
	}
	want := ""
	if *account != "" {
		data, err := os.ReadFile(*account)
		if err != nil {
			return err
		}
		want = strings.TrimSpace(string(data))
	}
	server := &http.Server{Addr: *listen, Handler: guarded(want, images), ReadHeaderTimeout: 10 * time.Second}
	if *serving == "" {
		return server.ListenAndServe()
	}
	own, err := certificate(*listen, *serving)
	if err != nil {
		return fmt.Errorf("make the certificate: %w", err)
	}
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS12}
	return server.ListenAndServeTLS("", "")
}

// certificate makes a certificate for an address and port, which signs itself, and writes
// it to a file without its key.
func certificate(at, file string) (tls.Certificate, error) {
	address, err := netip.ParseAddrPort(at)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "life-registry"}, IPAddresses: []net.IP{address.Addr().AsSlice()},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, os.WriteFile(file, text, 0o600)
}

// guarded answers only who has the account, or everybody where there is none, and writes
// who asked for what and how it was answered.
func guarded(want string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if want != "" && subtle.ConstantTimeCompare([]byte(user+":"+password), []byte(want)) != 1 {
			log.Printf("refused %s %s", r.Method, r.URL.Path)
			w.Header().Set("WWW-Authenticate", `Basic realm="life"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		log.Printf("granted %s %s", r.Method, r.URL.Path)
		next.ServeHTTP(w, r)
	})
}

// put pushes the image into the registry, before anybody else reaches it.
func put(images http.Handler, image v1.Image) error {
	door := httptest.NewServer(images)
	defer door.Close()
	ref, err := name.NewTag(strings.TrimPrefix(door.URL, "http://")+"/"+*repository+":v1", name.Insecure)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return remote.Write(ref, image, remote.WithContext(ctx))
}

// imageOfThis returns an image with this program alone. The same program gives the same
// digest.
func imageOfThis() (v1.Image, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := os.ReadFile(self) // #nosec G304 -- itself
	if err != nil {
		return nil, err
	}
	const at = "/hello"
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{Name: path.Base(at), Mode: 0o755, Size: int64(len(program))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	c, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.Architecture, c.OS, c.Config.Entrypoint = runtime.GOARCH, "linux", []string{at, "-hello"}
	return mutate.ConfigFile(image, c)
}
