// Kafka Streams under exactly_once_v2: each input's value in capitals, its headers as they were.
// streams.py runs it: `java -cp 'DIRECTORY/*' Streams.java` compiles it in memory, which takes a JDK of 17 or newer.

import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

public class Streams {
  public static void main(String[] arguments) throws InterruptedException {
    Map<String, String> environment = System.getenv();
    StreamsBuilder builder = new StreamsBuilder();
    builder
        .stream(environment.get("FENCEPOST_INPUT"), Consumed.with(Serdes.String(), Serdes.String()))
        .mapValues(value -> value.toUpperCase())
        .to(environment.get("FENCEPOST_OUTPUT"), Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), settings(environment));
    CountDownLatch failed = new CountDownLatch(1);
    streams.setStateListener(
        (now, before) -> {
          if (now == KafkaStreams.State.ERROR) {
            failed.countDown();
          }
        });
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
    failed.await();
    System.exit(1);
  }

  private static Properties settings(Map<String, String> environment) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, environment.get("FENCEPOST_GROUP"));
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, environment.get("FENCEPOST_BOOTSTRAP"));
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, environment.getOrDefault("GUARANTEE", StreamsConfig.EXACTLY_ONCE_V2));
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, environment.get("FENCEPOST_DIRECTORY"));
    settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6000);
    settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 1500);
    return settings;
  }
}
