package apiserver

import (
	"bytes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Encrypted lists the kinds whose objects contain secrets: a proxy's object may
// contain its password.
var Encrypted = []string{"secrets", "proxies.config.openshift.io"}

// Plain stands for no encryption in a list of keys.
const Plain = 0

// keyPrefix and a number form the name of a key. The values in etcd begin with
// it.
const keyPrefix = "holdfast-"

// Encryption renders the keys of an API server from the site's root and their
// numbers. The server writes with the first key and reads with all of them.
//
// Each key follows from its number and the root, which every control plane has.
// So no key is ever transferred, and none can be lost while a control plane
// lives.
func Encryption(root []byte, numbers []int) (state.File, error) {
	var providers []apiserverv1.ProviderConfiguration
	for i, n := range numbers {
		if n < Plain || slices.Contains(numbers[:i], n) {
			return state.File{}, fmt.Errorf("render %s: %v is no list of keys: a number is 0 (none) or more, and there once", EncryptionPath, numbers)
		}
		if n == Plain {
			providers = append(providers, apiserverv1.ProviderConfiguration{Identity: &apiserverv1.IdentityConfiguration{}})
			continue
		}
		secret, err := hkdf.Key(sha256.New, root, nil, "holdfast: secrets in etcd, key "+strconv.Itoa(n), sha256.Size)
		if err != nil {
			return state.File{}, fmt.Errorf("render %s: %w", EncryptionPath, err)
		}
		key := apiserverv1.Key{Name: keyPrefix + strconv.Itoa(n), Secret: base64.StdEncoding.EncodeToString(secret)}
		providers = append(providers, apiserverv1.ProviderConfiguration{Secretbox: &apiserverv1.SecretboxConfiguration{Keys: []apiserverv1.Key{key}}})
	}
	if len(root) == 0 || len(providers) == 0 {
		return state.File{}, fmt.Errorf("render %s: the site has no root of keys, or names none", EncryptionPath)
	}
	data, err := yaml.Marshal(apiserverv1.EncryptionConfiguration{
		TypeMeta:  metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "EncryptionConfiguration"},
		Resources: []apiserverv1.ResourceConfiguration{{Resources: Encrypted, Providers: providers}},
	})
	if err != nil {
		return state.File{}, fmt.Errorf("render %s: %w", EncryptionPath, err)
	}
	return state.File{Path: EncryptionPath, Data: data, Mode: state.SecretFileMode}, nil
}

// keptHead begins a file whose last key is kept for reading though nobody wants it: the host may have
// written with it after the others had dropped it. It is in the file itself, so one write changes
// both. The API server passes a comment over.
var keptHead = []byte("# holdfast.io/last-key=kept\n")

// Keeping returns a file that says that its last key is kept, and Keeps reads that.
func Keeping(f state.File) state.File {
	f.Data = slices.Concat(keptHead, f.Data)
	return f
}

// Keeps reports whether a file says that its last key is kept.
func Keeps(data []byte) bool { return bytes.HasPrefix(data, keptHead) }

// errKeys never quotes the file.
var errKeys = errors.New("the file is not one that Holdfast wrote")

// Numbers returns the numbers of the keys in a file that Encryption rendered.
func Numbers(data []byte) ([]int, error) {
	var c apiserverv1.EncryptionConfiguration
	if err := yaml.UnmarshalStrict(data, &c); err != nil || len(c.Resources) != 1 {
		return nil, fmt.Errorf("read %s: %w", EncryptionPath, errKeys)
	}
	var out []int
	for _, p := range c.Resources[0].Providers {
		if p.Identity != nil {
			out = append(out, Plain)
			continue
		}
		if p.Secretbox == nil || len(p.Secretbox.Keys) != 1 {
			return nil, fmt.Errorf("read %s: %w", EncryptionPath, errKeys)
		}
		n, ours := KeyNumber(p.Secretbox.Keys[0].Name)
		if !ours {
			return nil, fmt.Errorf("read %s: %w", EncryptionPath, errKeys)
		}
		out = append(out, n)
	}
	return out, nil
}

// KeyNumber returns the number of a key by its name. It reports false for a name that is not one
// of Holdfast's.
func KeyNumber(name string) (n int, ours bool) {
	number, ours := strings.CutPrefix(name, keyPrefix)
	n, err := strconv.Atoi(number)
	return n, ours && err == nil && n > Plain
}
