// An OpenID provider for tests, with one client and no questions: every login is that of the user "ann".
//
//	node idp.mjs PORT CLIENT_ID CLIENT_SECRET REDIRECT_URI [JWKS_FILE]
//
// With the file of a public key, there is a second client, CLIENT_ID-key, which authenticates itself by private_key_jwt. The
// program prints "ready" when it listens on 127.0.0.1:PORT. It is oidc-provider, a certified implementation of OpenID Connect.

import { readFileSync } from 'node:fs';

import Provider from 'oidc-provider';

const [port, clientID, clientSecret, redirectURI, keys] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;

const client = { redirect_uris: [redirectURI], grant_types: ['authorization_code', 'refresh_token', 'client_credentials'] };
const clients = [{ ...client, client_id: clientID, client_secret: clientSecret }];
if (keys) {
	clients.push({ ...client, client_id: `${clientID}-key`, token_endpoint_auth_method: 'private_key_jwt', jwks: JSON.parse(readFileSync(keys)) });
}

const provider = new Provider(issuer, {
	clients,
	claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'groups'] },
	conformIdTokenClaims: false,
	features: { clientCredentials: { enabled: true }, devInteractions: { enabled: false }, revocation: { enabled: true } },
	pkce: { required: () => true },
	rotateRefreshToken: true,
	interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
	findAccount: (ctx, id) => ({
		accountId: id,
		claims: () => ({ sub: id, email: 'ann@example.com', email_verified: true, name: 'Ann', groups: ['engineering'] }),
	}),
});

// The page of the provider answers itself: the user logs in and agrees.
provider.use(async (ctx, next) => {
	if (!ctx.path.startsWith('/interaction/')) {
		return next();
	}
	const { prompt, params, session } = await provider.interactionDetails(ctx.req, ctx.res);
	const result = { login: { accountId: 'ann' } };
	if (prompt.name === 'consent') {
		const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
		grant.addOIDCScope(params.scope);
		result.consent = { grantId: await grant.save() };
	}
	ctx.respond = false;
	await provider.interactionFinished(ctx.req, ctx.res, result, { mergeWithLastSubmission: true });
});

provider.listen(Number(port), '127.0.0.1', () => console.log('ready'));
