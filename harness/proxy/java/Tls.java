package fencepost.proxy;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.Socket;
import java.nio.channels.SocketChannel;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.SslConfigs;
import org.apache.kafka.common.security.ssl.DefaultSslEngineFactory;

/**
 * Links to both sides, with TLS where there are settings: Kafka's own (`ssl.keystore.location`, ...), read by Kafka's own class,
 * stores of JKS, PKCS12 and PEM alike.
 */
final class Tls {
    private static final int CONNECT_MS = 10_000;
    private static final String CLIENT_AUTH = "ssl.client.auth"; // of brokers alone
    private static final List<String> WANTED = List.of("required", "requested", "none");
    private static final List<String> KEYS = List.of("ssl.keystore.location", "ssl.keystore.key");
    private final SSLContext client; // null: plain
    private final SSLContext broker;
    private final String clientAuth;
    private final String endpoint; // "https": the broker's certificate must have its name

    /** Throws RuntimeException when stores cannot be read. */
    Tls(JsonNode settings) {
        client = context(settings.path("client"), "--tls-client");
        broker = context(settings.path("broker"), "--tls-broker");
        clientAuth = settings.path("client").path(CLIENT_AUTH).asText("none");
        if (!WANTED.contains(clientAuth)) {
            throw new IllegalArgumentException("--tls-client: " + CLIENT_AUTH + " must be one of " + String.join(", ", WANTED) + Alike.to(clientAuth, WANTED));
        }
        if (client != null && KEYS.stream().noneMatch(settings.path("client")::has)) {
            throw new IllegalArgumentException("--tls-client: a listener needs a key and its certificate; give " + String.join(", or ", KEYS));
        }
        endpoint = settings.path("broker").path("ssl.endpoint.identification.algorithm").asText("https");
    }

    private static SSLContext context(JsonNode given, String side) {
        if (given.isEmpty()) {
            return null;
        }
        ConfigDef known = new ConfigDef();
        SslConfigs.addClientSslSupport(known);
        Map<String, String> settings = new HashMap<>();
        given.fields().forEachRemaining(field -> settings.put(field.getKey(), field.getValue().asText()));
        for (String key : settings.keySet()) {
            if (!known.names().contains(key) && !key.equals(CLIENT_AUTH)) {
                throw new IllegalArgumentException(side + ": Kafka has no setting " + key + "; it has " + known.names());
            }
        }
        try (DefaultSslEngineFactory factory = new DefaultSslEngineFactory()) {
            factory.configure(known.parse(settings));
            return factory.sslContext();
        } catch (RuntimeException error) {
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            String why = cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage();
            boolean said = String.valueOf(error.getMessage()).contains(why);
            throw new IllegalArgumentException(side + ": " + error.getMessage() + (said ? "" : " (" + why + ")"), error);
        }
    }

    /** The client's side of a connection that was accepted. */
    Link fromClient(SocketChannel channel) throws IOException {
        Socket socket = channel.socket();
        if (client == null) {
            return new PlainLink(channel);
        }
        SSLSocket secure = (SSLSocket) client.getSocketFactory().createSocket(socket, null, true);
        secure.setWantClientAuth(clientAuth.equals("requested"));
        if (clientAuth.equals("required")) {
            secure.setNeedClientAuth(true);
        }
        return handshake(secure, socket);
    }

    /** A connection to a broker, on a channel that is not connected yet. */
    Link toBroker(Address upstream, SocketChannel channel) throws IOException {
        Socket socket = channel.socket();
        socket.connect(upstream.socket(), CONNECT_MS);
        if (broker == null) {
            return new PlainLink(channel);
        }
        SSLSocket secure = (SSLSocket) broker.getSocketFactory().createSocket(socket, upstream.host(), upstream.port(), true);
        SSLParameters parameters = secure.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm(endpoint.isEmpty() ? null : endpoint);
        secure.setSSLParameters(parameters);
        return handshake(secure, socket);
    }

    private static Link handshake(SSLSocket socket, Socket plain) throws IOException {
        socket.setSoTimeout(CONNECT_MS);
        socket.startHandshake();
        socket.setSoTimeout(0);
        return new TlsLink(socket, plain);
    }
}
