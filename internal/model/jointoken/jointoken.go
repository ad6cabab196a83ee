// Package jointoken makes and checks the secrets with which a host joins its
// cluster.
//
// A token is a JSON Web Token signed by HMAC-SHA256 with a key that only the
// installer and the control planes hold. It names its purpose, one role and its
// end. It may be used more than once before that: a host that lost power in its
// first boot asks again, and one pointer configuration serves all hosts of a
// role. A stolen token is limited by its purpose, its role, the host that it
// names and its life, and a new key ends it.
package jointoken

import (
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/holdfast/holdfast/internal/model/state"
)

// MinKeyBytes is the shortest key that Mint and Read accept, in bytes: the
// length of the hash, as RFC 7518 section 3.2 demands.
const MinKeyBytes = 32

// KeySecret is the Secret with the key that replaces the installer's key. It is
// in KeyNamespace, and the key is under KeyField.
const (
	KeyNamespace = "kube-system"
	KeySecret    = "holdfast-join-key"
	KeyField     = "key"
)

// MaxLength is the longest token that Read accepts, in bytes.
const MaxLength = 1024

// Purpose says what a token may be used for, and for nothing else. It is the
// token's audience.
type Purpose string

// The purposes. A host gets each token by the one before it and never by itself,
// so none outlives the one that it came from by more than its own life.
const (
	// Config opens a role's configuration. It is in the pointer of a host.
	Config Purpose = "holdfast-config"
	// Admission is in that configuration. A host exchanges it for its own Host
	// token, once it knows its name. It ends together with the Config token that
	// was shown.
	Admission Purpose = "holdfast-admission"
	// Host belongs to one host, which reports its progress and asks for its
	// bootstrap token with it.
	Host Purpose = "holdfast-host"
)

// The reasons for which a token is refused. None of them reveals anything of the
// token or the key.
var (
	// ErrInvalid means that it is no token, not signed with the key, or for another
	// purpose.
	ErrInvalid = errors.New("the join token is not one of this cluster's")
	// ErrExpired means that the token is genuine and has ended.
	ErrExpired = errors.New("the join token has expired")
	// ErrRole means that the token is genuine but for another role.
	ErrRole = errors.New("the join token is for another role")
	// ErrHost means that the token is genuine but another host's.
	ErrHost = errors.New("the join token is another host's")
)

// Claims holds the content of a token.
type Claims struct {
	Purpose Purpose
	Role    state.Role
	// Host is the only host that the token is for; empty means any of the role.
	Host string
	// Expires is the first moment at which the token is refused, to the second.
	Expires time.Time
	// ID tells tokens apart, for example in a log. It is no secret.
	ID string
}

// Opens returns why a token with these claims does not open the things of a
// role, or of a host of that role if one is named; nil if it does.
func (c Claims) Opens(role state.Role, host string) error {
	switch {
	case c.Role != role:
		return ErrRole
	case host != "" && c.Host != "" && c.Host != host:
		return ErrHost
	}
	return nil
}

// wire is a token's payload.
type wire struct {
	Role state.Role `json:"role"`
	jwt.RegisteredClaims
}

// Mint returns a signed token. The same claims and key give the same token. It
// fails if the key is too short or a claim is missing.
func Mint(key []byte, c Claims) (string, error) {
	if len(key) < MinKeyBytes {
		return "", fmt.Errorf("mint join token: the key has %d bytes, it needs %d", len(key), MinKeyBytes)
	}
	if c.Purpose == "" || c.Role == "" || c.Expires.IsZero() {
		return "", errors.New("mint join token: purpose, role and expiry are needed")
	}
	if c.Purpose == Host && c.Host == "" {
		return "", errors.New("mint join token: a host's own names the host")
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, wire{
		Role: c.Role,
		RegisteredClaims: jwt.RegisteredClaims{
			Audience:  jwt.ClaimStrings{string(c.Purpose)},
			Subject:   c.Host,
			ExpiresAt: jwt.NewNumericDate(c.Expires),
			ID:        c.ID,
		},
	}).SignedString(key)
}

// Read checks that a token was minted with the key for a purpose and has not
// ended at now, and returns its claims. The error is ErrInvalid or ErrExpired.
func Read(key []byte, token string, purpose Purpose, now time.Time) (Claims, error) {
	if len(key) < MinKeyBytes || len(token) > MaxLength {
		return Claims{}, ErrInvalid
	}
	var w wire
	_, err := jwt.ParseWithClaims(token, &w,
		func(*jwt.Token) (any, error) { return key, nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Name}),
		jwt.WithTimeFunc(func() time.Time { return now }),
		jwt.WithExpirationRequired(),
		jwt.WithAudience(string(purpose)),
		jwt.WithStrictDecoding())
	switch {
	case onlyExpired(err):
		return Claims{}, ErrExpired
	case err != nil || w.Role == "" || purpose == Host && w.Subject == "":
		return Claims{}, ErrInvalid
	}
	return Claims{Purpose: purpose, Role: w.Role, Host: w.Subject, Expires: w.ExpiresAt.Time, ID: w.ID}, nil
}

// onlyExpired reports whether a genuine token is refused for its age. The
// library checks the signature before the claims.
func onlyExpired(err error) bool {
	return errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenInvalidAudience)
}
